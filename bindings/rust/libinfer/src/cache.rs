use crate::session::Session;
use libinfer_sys as sys;

c_enum! {
    /// Why a look-up in the prefix cache gave no more than it did.
    CacheReason or Unknown {
        /// No cache, or none for this session, or nothing was looked up yet.
        Off = INFER_CACHE_REASON_OFF,
        /// Everything but the last element was reused.
        Hit = INFER_CACHE_REASON_HIT,
        /// What is stored ends at `difference`.
        Ends = INFER_CACHE_REASON_ENDS,
        /// What is stored goes on differently from `difference` on.
        Differs = INFER_CACHE_REASON_DIFFERS,
        /// More was stored once, and evicted.
        Evicted = INFER_CACHE_REASON_EVICTED,
        /// The same tokens are stored under other adapters.
        OtherAdapters = INFER_CACHE_REASON_OTHER_ADAPTERS,
        /// More is stored under another salt. For the host's eyes: tenants are told `own_reason`.
        OtherSalt = INFER_CACHE_REASON_OTHER_SALT,
        /// More is stored in another KV type.
        OtherKvType = INFER_CACHE_REASON_OTHER_KV_TYPE,
        /// Nothing is stored for this model, KV type and salt.
        Empty = INFER_CACHE_REASON_EMPTY,
        /// Memory ran out while looking up; everything was computed.
        Failed = INFER_CACHE_REASON_FAILED,
    }
}

/// What a session's last look-up in the prefix cache gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheReport {
    /// Why it gave no more.
    pub reason: CacheReason,
    /// Elements of the session then.
    pub wanted: u64,
    /// Elements taken from the cache.
    pub reused: u64,
    /// Elements that are stored, but were computed again.
    pub rerun: u64,
    /// The first element that is not stored.
    pub difference: u64,
    /// Not 0: a near miss; a stored prefix of this length is nearly the same.
    pub near_length: u64,
    /// The reason found without a look at other salts: what may be told to a tenant.
    pub own_reason: CacheReason,
}

impl CacheReport {
    pub(crate) fn of(session: &Session) -> crate::Result<Self> {
        let mut raw = sys::infer_cache_report::init();
        // SAFETY: the session is live, raw is ours.
        crate::ffi::call(|err| unsafe { sys::infer_session_cache_report(session.raw(), &mut raw, err) })?;
        Ok(CacheReport {
            reason: CacheReason::from_raw(raw.reason),
            wanted: raw.wanted,
            reused: raw.reused,
            rerun: raw.rerun,
            difference: raw.difference,
            near_length: raw.near_length,
            own_reason: CacheReason::from_raw(raw.own_reason),
        })
    }
}

macro_rules! stats {
    ($($(#[$doc:meta])* $field:ident,)+) => {
        /// What an engine's prefix cache did and keeps.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheStats {
            $($(#[$doc])* pub $field: u64,)+
        }
        impl CacheStats {
            pub(crate) fn from_c(raw: &sys::infer_cache_stats) -> Self {
                CacheStats { $($field: raw.$field,)+ }
            }
        }
    };
}
stats! {
    /// Look-ups.
    lookups,
    /// Of these, that gave all they could.
    hits,
    /// That gave something.
    partial_hits,
    /// Elements that were not computed.
    saved,
    /// Elements that were computed although stored.
    rerun,
    /// Pieces put in.
    insertions,
    /// Pieces evicted.
    evictions,
    /// Bytes kept now.
    bytes,
    /// Pieces kept now.
    nodes,
    /// Pieces remembered without their state.
    ghosts,
    /// Their bytes.
    ghost_bytes,
    /// Files in the cache's folder, as last seen.
    disk_files,
    /// Their bytes.
    disk_bytes,
    /// Bytes that this engine wrote there.
    disk_written,
    /// Pieces that were not written: no budget, or an error.
    disk_skipped,
    /// Pieces that were read back.
    disk_loaded,
    /// Files found damaged, not used, and removed.
    disk_damaged,
}
