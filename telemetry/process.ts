import { totalmem } from "node:os";
import { monitorEventLoopDelay, PerformanceObserver } from "node:perf_hooks";
import type { Metrics } from "./metrics.ts";

const NANOSECONDS = 1e9;
const MICROSECONDS = 1e6;

/** CPU, memory, event loop and garbage collection of this process, under the names that other exporters use. Call it once. */
export function addProcess(metrics: Metrics): void {
  metrics.counter({
    name: "process_cpu_seconds_total",
    about: "CPU time of the process.",
    isCommon: true,
    read: () => {
      const { user, system } = process.cpuUsage();
      return (user + system) / MICROSECONDS;
    },
  });
  metrics.gauge({
    name: "process_resident_memory_bytes",
    about: "Resident memory of the process.",
    isCommon: true,
    read: () => process.memoryUsage.rss(),
  });
  metrics.gauge({
    name: "process_memory_limit_bytes",
    about: "Memory that the process may use: the limit of its container or unit, otherwise the memory of the machine.",
    isCommon: true,
    aggregation: "max",
    read: () => Math.min(process.constrainedMemory() || Infinity, totalmem()),
  });
  metrics.gauge({
    name: "nodejs_heap_used_bytes",
    about: "Memory of JavaScript objects.",
    isCommon: true,
    read: () => process.memoryUsage().heapUsed,
  });
  const startTime = Date.now() / 1000 - process.uptime();
  metrics.gauge({
    name: "process_start_time_seconds",
    about: "When the process started, in seconds since 1970.",
    isCommon: true,
    aggregation: "max",
    read: () => startTime,
  });
  addEventLoop(metrics);
  addGarbageCollection(metrics);
}

/** Milliseconds between two measurements, which Node adds to each delay. */
const RESOLUTION = 20;

function addEventLoop(metrics: Metrics): void {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION });
  delay.enable();
  const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / NANOSECONDS - RESOLUTION / 1000);
  metrics.gauge({
    name: "nodejs_eventloop_delay_p99_seconds",
    about: "By how much timers were late since the previous collection, 99th percentile.",
    isCommon: true,
    aggregation: "max",
    read: () => seconds(delay.percentile(99)),
  });
  metrics.gauge({
    name: "nodejs_eventloop_delay_max_seconds",
    about: "The longest time since the previous collection for which the event loop was blocked.",
    isCommon: true,
    aggregation: "max",
    read: () => {
      const longest = seconds(delay.max);
      delay.reset();
      return longest;
    },
  });
}

function addGarbageCollection(metrics: Metrics): void {
  let seconds = 0;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) seconds += duration / 1000;
  }).observe({ entryTypes: ["gc"] });
  metrics.counter({
    name: "nodejs_gc_seconds_total",
    about: "Time spent in garbage collection.",
    isCommon: true,
    read: () => seconds,
  });
}
