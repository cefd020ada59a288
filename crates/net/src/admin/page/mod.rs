//! The files of the live page, as they are in this folder: no build step, and nothing is fetched from elsewhere.

/// One file as it is served.
#[derive(Debug)]
pub(crate) struct PageFile {
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) text: &'static str,
}

pub(crate) const FILES: [PageFile; 15] = [
    PageFile { path: "/", content_type: "text/html; charset=utf-8", text: include_str!("index.html") },
    PageFile { path: "/page.css", content_type: "text/css; charset=utf-8", text: include_str!("page.css") },
    PageFile { path: "/icon.svg", content_type: "image/svg+xml", text: include_str!("icon.svg") },
    script("/page.js", include_str!("page.js")),
    script("/words.js", include_str!("words.js")),
    script("/draw.js", include_str!("draw.js")),
    script("/chart.js", include_str!("chart.js")),
    script("/link.js", include_str!("link.js")),
    script("/load.js", include_str!("load.js")),
    script("/backend.js", include_str!("backend.js")),
    script("/channel.js", include_str!("channel.js")),
    script("/cluster.js", include_str!("cluster.js")),
    script("/server.js", include_str!("server.js")),
    script("/admission.js", include_str!("admission.js")),
    script("/spender.js", include_str!("spender.js")),
];

const fn script(path: &'static str, text: &'static str) -> PageFile {
    PageFile { path, content_type: "text/javascript; charset=utf-8", text }
}

impl PageFile {
    /// Changes with the text: FNV-1a, 64 bits.
    pub(crate) fn etag(&self) -> String {
        let hash = self
            .text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        format!("\"{hash:016x}\"")
    }
}
