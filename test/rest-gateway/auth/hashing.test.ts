import { hash } from "@node-rs/argon2";
import { expect, test } from "vitest";
import { PasswordHashing } from "../../../rest-gateway/auth/hashing.ts";

/** Eight times what the service takes. */
const hashDearly = (password: string) => hash(password, { memoryCost: 19_456, timeCost: 16, parallelism: 1 });

test("the password of nobody is compared for as long as one that was hashed, whatever that costs", async () => {
  const hashing = new PasswordHashing(hashDearly);
  const somebodys = await hashDearly("Correct-Horse-7!");
  const milliseconds = async (stored: string | null) => {
    const since = performance.now();
    expect(await hashing.matches("Wrong-Horse-7!!!", stored)).toBe(false);
    return performance.now() - since;
  };
  const times = { nobody: [] as number[], somebody: [] as number[] };
  for (let i = 0; i < 6; i++) {
    times.nobody.push(await milliseconds(null));
    times.somebody.push(await milliseconds(somebodys));
  }
  // The quickest of each: whatever else the machine does only adds to them.
  const ratio = Math.min(...times.nobody) / Math.min(...times.somebody);
  expect(ratio).toBeGreaterThan(0.4);
  expect(ratio).toBeLessThan(2.5);
});

test("nothing is the password of nobody", async () => {
  const hashing = new PasswordHashing();
  for (const password of ["", "x", "Correct-Horse-7!"]) expect(await hashing.matches(password, null)).toBe(false);
});
