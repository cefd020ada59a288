//! Datagrams on the simulated network, in any weather: lost, late, out of order, twice, or not at all.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::udp::{Batch, Datagrams, Receiving};
use evenkeel_core::Rng;
use tokio::sync::Notify;
use turmoil::net::UdpSocket;

/// What happens to datagrams; all sockets of a world share it.
#[derive(Clone, Debug)]
pub(crate) struct Weather(Arc<Mutex<Sky>>);

#[derive(Debug)]
struct Sky {
    rough: Rough,
    rng: Rng,
    sent: u64,
}

/// Shares of datagrams, and the longest delay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rough {
    pub(crate) lost: f64,
    pub(crate) twice: f64,
    /// Those that are late come after later ones.
    pub(crate) late: f64,
    pub(crate) late_most: Duration,
}

impl Weather {
    /// Nothing is lost but what the network loses.
    pub(crate) fn calm(seed: u64) -> Weather {
        Weather(Arc::new(Mutex::new(Sky { rough: Rough::default(), rng: Rng::from_seed(seed), sent: 0 })))
    }

    pub(crate) fn set(&self, rough: Rough) {
        self.0.lock().unwrap().rough = rough;
    }

    /// Datagrams sent so far, by anybody.
    pub(crate) fn sent(&self) -> u64 {
        self.0.lock().unwrap().sent
    }

    /// A socket of the host this is called on.
    pub(crate) async fn socket(&self, port: u16) -> io::Result<Arc<Wet>> {
        let socket = UdpSocket::bind(("0.0.0.0", port)).await?;
        let inner = Mutex::new(Arc::new(socket));
        Ok(Arc::new(Wet { weather: self.clone(), inner, moved: Notify::new() }))
    }

    /// When each copy of the next datagram leaves.
    fn delays(&self) -> Vec<Duration> {
        let sky = &mut *self.0.lock().unwrap();
        sky.sent += 1;
        let Rough { lost, twice, late, late_most } = sky.rough;
        let copies = if sky.rng.unit() < twice { 2 } else { 1 };
        let mut delays = Vec::new();
        for _ in 0..copies {
            let is_late = sky.rng.unit() < late;
            let delay = if is_late { late_most.mul_f64(sky.rng.unit()) } else { Duration::ZERO };
            if sky.rng.unit() >= lost {
                delays.push(delay);
            }
        }
        delays
    }
}

/// A socket in the weather. It may move to another port, as behind a translator of addresses.
pub(crate) struct Wet {
    weather: Weather,
    inner: Mutex<Arc<UdpSocket>>,
    moved: Notify,
}

impl std::fmt::Debug for Wet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wet")
    }
}

impl Wet {
    /// From now on it has another port; the old one is nobody's.
    pub(crate) async fn move_away(&self) -> io::Result<()> {
        let socket = UdpSocket::bind(("0.0.0.0", 0)).await?;
        *self.inner.lock().unwrap() = Arc::new(socket);
        self.moved.notify_one();
        Ok(())
    }

    fn inner(&self) -> Arc<UdpSocket> {
        Arc::clone(&self.inner.lock().unwrap())
    }
}

impl Datagrams for Wet {
    fn receive<'a>(&'a self, batch: &'a mut Batch) -> Receiving<'a> {
        Box::pin(async move {
            loop {
                let (socket, mut buffer) = (self.inner(), [0; 1500]);
                tokio::select! {
                    biased;
                    () = self.moved.notified() => {}
                    received = socket.recv_from(&mut buffer) => {
                        let (length, from) = received?;
                        batch.push(&buffer[..length], from, None);
                        return Ok(());
                    }
                }
            }
        })
    }

    fn send(&self, bytes: &[u8], to: SocketAddr, _from: Option<IpAddr>) -> io::Result<()> {
        for delay in self.weather.delays() {
            let (socket, bytes) = (self.inner(), bytes.to_vec());
            if delay.is_zero() {
                socket.try_send_to(&bytes, to)?;
                continue;
            }
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                drop(socket.try_send_to(&bytes, to));
            });
        }
        Ok(())
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.inner().local_addr()
    }
}
