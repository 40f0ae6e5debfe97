import { expect, test } from "vitest";
import { chartsOf } from "../../../parts/console/charts.ts";
import { History, type Point, pointOf } from "../../../parts/console/history.ts";
import { parseMetrics } from "../../../telemetry/metrics.ts";
import { textOf } from "../../support/console-client.ts";

/** Counts of requests by status, and of requests that took at most 0.1, 1 and any number of seconds. */
const metrics = (statuses: Readonly<Record<string, number>>, buckets: readonly [number, number, number], lag = 0) =>
  [
    ...Object.entries(statuses).map(
      ([status, count]) => `content_service_http_requests_total{status="${status}"} ${count}`,
    ),
    ...["0.1", "1", "+Inf"].map(
      (le, i) => `content_service_http_request_duration_seconds_bucket{route="/",le="${le}"} ${buckets[i]}`,
    ),
    'content_service_db_pool_waiting{pool="data"} 2',
    'content_service_db_pool_waiting{pool="auth"} 1',
    'content_service_db_pool_max{pool="data"} 10',
    `content_service_changes_lag_seconds ${lag}`,
  ].join("\n");

const reading = (at: number, text: string) => ({ at, samples: parseMetrics(text) });

test("a point has the rate, the share of internal errors and the latency since the last one", () => {
  const before = reading(0, metrics({ 200: 100, 404: 10 }, [110, 110, 110]));
  const now = reading(10_000, metrics({ 200: 190, 404: 15, 500: 3, 504: 2 }, [200, 208, 210], 4));
  expect(pointOf(before, now)).toEqual({
    ...{ at: 10_000, requests: 10, errors: 5, waiting: 3, connections: 10, lag: 4 },
    // The 99th of 100 is above the last finite bound.
    latency: 1,
  });
  const fast = reading(10_000, metrics({ 200: 200, 404: 10 }, [160, 210, 210]));
  expect(pointOf(before, fast).latency).toBeCloseTo(0.1 + 0.9 * (49 / 50));
  expect(pointOf(before, { ...before, at: 10_000 })).toMatchObject({ requests: 0, errors: null, latency: null });
});

test("a counter that begins again gives no negative rate", () => {
  const before = reading(0, metrics({ 200: 100 }, [100, 100, 100]));
  expect(pointOf(before, reading(1000, metrics({ 200: 3 }, [3, 3, 3]))).requests).toBe(0);
});

test("the history keeps an hour, the newest points", async () => {
  let count = 0;
  const history = new History(async () => metrics({ 200: count++ }, [0, 0, 0]));
  for (let i = 0; i < 300; i++) await history.read();
  history.close();
  expect(history.points).toHaveLength(240);
});

const point = (at: number, changes: Partial<Point> = {}): Point => ({
  ...{ at, requests: 1, errors: 0, latency: 0.01, waiting: 0, connections: 10, lag: 0 },
  ...changes,
});

test("a chart names the value now, the greatest one, and a threshold that is exceeded", () => {
  const charts = chartsOf([point(0, { latency: 2.5 }), point(15_000), point(30_000, { lag: 12 })]);
  const text = textOf(charts.text);
  expect(text).toContain("Latency, 99th percentile 10 ms At most 2,500 ms; threshold 1,000 ms, exceeded in this hour");
  expect(text).toContain("Lag of changes 12 s At most 12 s; threshold 10 s, exceeded");
  expect(charts.text.match(/class="threshold"/g)).toHaveLength(2);
  expect(charts.text).toContain('aria-label="Requests per second in the last hour: now 1, at most 1"');
});

test("a chart draws no line over a time without values, and nothing older than an hour", () => {
  const hour = 3_600_000;
  const times = [0, hour, hour + 15_000, hour + 15_000 * 10];
  const [, path] = /class="line" d="([^"]+)"/.exec(chartsOf(times.map((at) => point(at))).text)!;
  expect(path!.match(/M/g)).toHaveLength(2);
  expect(path!.match(/L/g)).toHaveLength(1);
  expect(textOf(chartsOf([point(0)]).text)).toContain("The charts begin half a minute after the start");
});
