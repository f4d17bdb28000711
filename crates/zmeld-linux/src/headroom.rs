//! How much more memory programs can take before the kernel has to end one.
//!
//! Free swap misleads: a compressed device can have room for pages and none in RAM.
//! Headroom is the pages that still fit. Beyond what can be had without swapping,
//! each page that a program gains puts another one into swap. On a drive that one
//! takes no RAM. In a compressed device whose pages take 1/r of their size it takes
//! 1/r of it again, so that a device that takes X more bytes of pages gives X (1 - 1/r).
//! X ends where the device does, where its memory limit does (what is left of the
//! limit, times r), and where compressed pages fill all RAM that pages of programs are
//! in (that RAM, times r). r is that of the pages that the device holds now, without
//! those of one value, of which some hundreds say nothing of others; where it holds less
//! than a codec is judged from, r is not known, and the device counts for nothing. On the
//! way to a drive pages are in zswap's pool first: of P places on drives, what the pool may
//! still take times r gives as compressed pages do, and the rest as a drive does.

/// Room as it is added up, tier by tier.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    available_bytes: u64,
    compressed_bytes: u64,
    disk_bytes: u64,
    /// Room left in zswap's pool, and its ratio.
    pool: (u64, f64),
    /// RAM that compressed pages can come to fill.
    ram: f64,
}

impl Sum {
    /// Of a machine with so much to be had without swapping, and so much of pages of
    /// programs in RAM.
    pub fn new(available_bytes: u64, anonymous_bytes: u64) -> Sum {
        Sum {
            available_bytes,
            compressed_bytes: 0,
            disk_bytes: 0,
            pool: (0, 1.0),
            ram: available_bytes.saturating_add(anonymous_bytes) as f64,
        }
    }

    /// Adds a compressed device: how much of its size is free, its pages' size over the
    /// RAM that they take, and the RAM that it may still take.
    pub fn compressed(&mut self, free_bytes: u64, ratio: f64, limit_left: Option<u64>) {
        let ratio = ratio.max(1.0);
        let left = limit_left.map_or(f64::INFINITY, |left| left as f64);
        let pages = (free_bytes as f64).min(left * ratio).min(self.ram * ratio);
        self.ram -= pages / ratio;
        self.compressed_bytes += (pages * (1.0 - 1.0 / ratio)).max(0.0) as u64;
    }

    /// Adds what is free of swap on a drive.
    pub fn drive(&mut self, free_bytes: u64) {
        self.disk_bytes = self.disk_bytes.saturating_add(free_bytes);
    }

    /// Adds zswap's pool, which may still take so much RAM, and its pages' size over the RAM
    /// that they take.
    pub fn pool(&mut self, left_bytes: u64, ratio: f64) {
        self.pool = (left_bytes, ratio.max(1.0));
    }

    /// Places on drives whose pages stay in zswap's pool.
    fn pooled_bytes(&self) -> u64 {
        let (left_bytes, ratio) = self.pool;
        self.disk_bytes.min((left_bytes as f64 * ratio) as u64)
    }

    /// By swap on drives, without what zswap's pool takes.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes - self.pooled_bytes()
    }

    /// By compressing pages in RAM, at the ratio of those that are there.
    pub fn compressed_bytes(&self) -> u64 {
        let pooled = self.pooled_bytes() as f64 * (1.0 - 1.0 / self.pool.1);
        self.compressed_bytes.saturating_add(pooled as u64)
    }

    /// Without swapping (`MemAvailable`).
    pub fn available_bytes(&self) -> u64 {
        self.available_bytes
    }

    pub fn bytes(&self) -> u64 {
        self.available_bytes
            .saturating_add(self.compressed_bytes())
            .saturating_add(self.disk_bytes())
    }
}

/// The size of pages that were compressed over the RAM that they take.
pub fn ratio(pages_bytes: u64, used_bytes: u64) -> Option<f64> {
    (pages_bytes > 0 && used_bytes > 0).then(|| pages_bytes as f64 / used_bytes as f64)
}
