import { expect, test, vi } from "vitest";
import { Housekeeping } from "../../../rest-gateway/auth/housekeeping.ts";
import { POLL } from "../../support/until.ts";

test("what is expired is deleted one kind after the other, and an error in one of them does not keep the next", async () => {
  const order: string[] = [];
  const purge = (name: string) => async () => {
    order.push(`${name} begins`);
    await Promise.resolve();
    order.push(`${name} ends`);
  };
  const fails = () => Promise.reject(new Error("deadlock detected"));
  const errors: unknown[] = [];
  const housekeeping = new Housekeeping({
    purges: [purge("attempts"), fails, purge("e-mails")],
    onError: (error) => errors.push(error),
  });
  housekeeping.start();
  await vi.waitUntil(() => order.length === 4, POLL);
  await housekeeping.close();
  expect(order).toEqual(["attempts begins", "attempts ends", "e-mails begins", "e-mails ends"]);
  expect(errors).toEqual([new Error("deadlock detected")]);
});

test("a stop waits for what is being deleted, and deletes nothing more", async () => {
  const deleting = Promise.withResolvers<void>();
  const order: string[] = [];
  const purges = [
    () => deleting.promise.then(() => void order.push("attempts")),
    async () => void order.push("e-mails"),
  ];
  const housekeeping = new Housekeeping({ purges, onError: () => {} });
  housekeeping.start();
  const closed = housekeeping.close().then(() => order.push("closed"));
  deleting.resolve();
  await closed;
  expect(order).toEqual(["attempts", "closed"]);
});
