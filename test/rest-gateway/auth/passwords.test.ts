import { hash } from "@node-rs/argon2";
import { expect, onTestFinished, test, vi } from "vitest";
import { argon2, PasswordHashing } from "../../../rest-gateway/auth/passwords.ts";

const costly = (password: string) => hash(password, { memoryCost: 8192, timeCost: 5, parallelism: 1 });
/** `$argon2id$v=19$m=8192,t=5,p=1` */
const costsOf = (phc: string) => phc.split("$").slice(0, 4).join("$");

test("an unknown account costs one verification with the parameters of a stored hash", async () => {
  const hashing = new PasswordHashing(costly);
  const stored = await costly("Correct-Horse-7!");
  const verify = vi.spyOn(argon2, "verify");
  onTestFinished(() => verify.mockRestore());
  for (const hash of [stored, null]) expect(await hashing.matches("Wrong-Horse-7!!!", hash)).toBe(false);
  const calls = verify.mock.calls.map(([phc, password]) => [costsOf(String(phc)), password]);
  expect(calls).toEqual(Array(2).fill(["$argon2id$v=19$m=8192,t=5,p=1", "Wrong-Horse-7!!!"]));
});

test("no password matches an unknown account", async () => {
  const hashing = new PasswordHashing();
  for (const password of ["", "x", "Correct-Horse-7!"]) expect(await hashing.matches(password, null)).toBe(false);
});
