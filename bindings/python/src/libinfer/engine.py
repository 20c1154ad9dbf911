"""Engines: device, threads, memory of computed state, log."""
from __future__ import annotations

import logging
import os
import weakref
from ctypes import byref
from typing import Callable

from . import _c
from ._calls import interruptible
from ._core import LOG_CALLBACK, Cancel, Object, add_logger, address_of, call, cancel_arg, fill, new, remove_logger
from ._library import lib
from .enums import Cpu, LogLevel, Numerics
from .records import CacheStats, EngineInfo

_LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARNING: logging.WARNING, LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def _log_function(log: logging.Logger | Callable[[int, str], None]) -> Callable[[int, str], None]:
    if isinstance(log, logging.Logger):
        logger = log
        return lambda level, text: logger.log(_LEVELS.get(LogLevel(level), logging.DEBUG), "%s", text)
    return log


class Engine(Object):
    """Owns the device, its threads and the memory of computed state. Models make one for themselves where none is given; one for several models shares
    threads, budget and prefix cache."""

    _KIND = "engine"

    def __init__( # pylint: disable=super-init-not-called
        self,
        *,
        threads: int = 0,
        cpu: Cpu | str = Cpu.AUTO,
        numerics: Numerics = Numerics.EXACT,
        kv_budget: int = 0,
        memory_limit: int = 0,
        cache_bytes: int = 0,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_dir_bytes: int = 0,
        cache_write_bytes: int = 0,
        log: logging.Logger | Callable[[int, str], None] | None = None,
        log_level: LogLevel = LogLevel.WARNING,
    ) -> None:
        """Fields of infer_engine_options; 0 is the library's default. cpu: also by name ("avx2"). log: a logging.Logger, or a function of level and text. It
        is called from any thread that is inside the library, and must not call libinfer; what it raises is told by sys.unraisablehook."""
        options = new(_c.infer_engine_options)
        if isinstance(cpu, str):
            name = cpu.encode()
            known: int = lib.infer_cpu_from_name(name, len(name))
            if known < 0:
                raise ValueError(f"no CPU variant is called {cpu!r}")
            cpu = Cpu(known)
        fill(options, cpu=int(cpu), numerics=int(numerics), threads=threads, kv_budget=kv_budget, cache_bytes=cache_bytes)
        if memory_limit:
            fill(options, memory_limit=memory_limit)
        directory = os.fsencode(cache_dir) if cache_dir is not None else None
        if directory is not None:
            options.cache_dir, options.cache_dir_len = address_of(directory), len(directory)
            fill(options, cache_dir_bytes=cache_dir_bytes, cache_write_bytes=cache_write_bytes)
        key: int | None = None
        if log is not None:
            key = add_logger(_log_function(log))
            options.log, options.log_user, options.log_level = LOG_CALLBACK, key, int(log_level)
        try:
            self._make(lib.infer_engine_create, byref(options))
        except BaseException:
            if key is not None:
                remove_logger(key)
            raise
        if key is not None: # as long as anything keeps this object or its handle: models keep the object
            weakref.finalize(self, remove_logger, key).atexit = False

    @property
    def info(self) -> EngineInfo:
        return EngineInfo._of(self._info(_c.infer_engine_info))

    def cache_stats(self) -> CacheStats:
        """What the prefix cache holds and did; all 0 without one."""
        out = new(_c.infer_cache_stats)
        call(lib.infer_engine_cache_stats, self._h, byref(out))
        return CacheStats._of(out)

    def cache_flush(self, cancel: Cancel | None = None) -> None:
        """Writes everything that the prefix cache keeps to cache_dir."""
        interruptible(cancel, lambda flag: call(lib.infer_engine_cache_flush, self._h, cancel_arg(flag)))

    def cache_clear(self) -> None:
        """Forgets everything that the prefix cache keeps in memory."""
        call(lib.infer_engine_cache_clear, self._h)
