import { once } from "node:events";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { useRealtime } from "../support/realtime.ts";

const { service, url } = useRealtime({ CLIENT_MEMORY: "4000000", clientMemoryPerAddress: 800_000 }, "");

/** Tracks 4 kB in 40 channels of one socket. Resolves to the answers. */
async function track(localAddress: string): Promise<{ socket: WebSocket; refused: string[]; accepted: number }> {
  const socket = new WebSocket(url(), { localAddress });
  onTestFinished(() => socket.terminate());
  const answers: any[] = [];
  socket.on("message", (data) => {
    const [, ref, , event, payload] = JSON.parse(String(data));
    if (event === "phx_reply" && ref === "2") answers.push(payload);
  });
  await once(socket, "open");
  const send = (n: number, ref: string, event: string, payload: object) =>
    socket.send(JSON.stringify(["1", ref, `realtime:${localAddress} ${n}`, event, payload]));
  for (let n = 0; n < 40; n++) send(n, "1", "phx_join", {});
  for (let n = 0; n < 40; n++)
    send(n, "2", "presence", { type: "presence", event: "track", payload: { text: "x".repeat(4000) } });
  await expect.poll(() => answers.length).toBe(40);
  const refused = answers.filter(({ status }) => status === "error").map(({ response }) => response.reason);
  return { socket, refused, accepted: answers.length - refused.length };
}

test("presences beyond the share of a network are refused, those of another network are not, and they return", async () => {
  const first = await track("127.0.0.2");
  expect(first.accepted).toBeGreaterThan(10);
  expect(new Set(first.refused)).toEqual(
    new Set(["PresenceLimitReached: the clients of this network make the service hold too much: try again later"]),
  );
  expect(service().service.clientMemory()).toBeLessThan(900_000);
  const second = await track("127.0.0.3");
  expect(second.accepted).toBe(first.accepted);
  for (const { socket } of [first, second]) socket.close();
  await expect.poll(() => service().service.clientMemory()).toBe(0);
});
