import { beforeEach, expect, test, vi } from "vitest";
import { Receipts } from "../../realtime/receipts.ts";
import type { Subscription } from "../../realtime/subscription.ts";

beforeEach(() => {
  vi.useFakeTimers();
  return () => vi.useRealTimers();
});

function receiptsOf() {
  const pings: string[] = [];
  const subscription = { ping: vi.fn(), pong: vi.fn() };
  const receipts = new Receipts((payload) => pings.push(payload));
  /** A turn of the event loop in which the subscription gets messages. */
  const message = () => {
    receipts.expect(subscription as unknown as Subscription);
    receipts.endTurn();
  };
  return { receipts, pings, subscription, message };
}

test("the first message has a ping, and the next ones share one with a message of half a second later", () => {
  const { receipts, pings, subscription, message } = receiptsOf();
  message();
  expect(pings).toEqual(["1"]);
  receipts.pong("1");
  expect(subscription.pong).toHaveBeenCalledTimes(1);
  for (let n = 0; n < 4; n++) {
    vi.advanceTimersByTime(100);
    message();
  }
  expect(pings).toEqual(["1"]);
  vi.advanceTimersByTime(100);
  message();
  expect(pings).toEqual(["1", "2"]);
  receipts.pong("2");
  vi.advanceTimersByTime(10_000);
  expect([pings.length, subscription.ping.mock.calls.length, subscription.pong.mock.calls.length]).toEqual([2, 2, 2]);
});

test("the last messages have a ping within a second, and it waits for the answer to the one before", () => {
  const { receipts, pings, subscription, message } = receiptsOf();
  message();
  message();
  vi.advanceTimersByTime(5000);
  message();
  expect(pings).toEqual(["1"]);
  receipts.pong("0");
  expect(subscription.pong).not.toHaveBeenCalled();
  receipts.pong("1");
  vi.advanceTimersByTime(500);
  expect(pings).toEqual(["1", "2"]);
  receipts.pong("2");
  message();
  vi.advanceTimersByTime(1000);
  expect(pings).toEqual(["1", "2", "3"]);
  receipts.pong("3");
  message();
  receipts.close();
  vi.advanceTimersByTime(5000);
  expect(pings).toEqual(["1", "2", "3"]);
});
