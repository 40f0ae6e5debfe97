import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { hashPassword, PasswordHashing, PasswordRules } from "../../../rest-gateway/auth/passwords.ts";

const CLIENT = { address: "198.51.100.7" };

test("no password matches an unknown account", async () => {
  const hashing = new PasswordHashing();
  for (const password of ["", "x", "Correct-Horse-7!"])
    expect(await hashing.matches(password, null, CLIENT)).toBe(false);
});

/** Hashes passwords, which take a few milliseconds each, and lists those that began. */
function listed() {
  const begun: string[] = [];
  const hashing = new PasswordHashing(async (password) => {
    begun.push(password);
    await sleep(5);
    return password;
  });
  begun.length = 0;
  const hashFrom = (address: string, password: string) => hashing.hashFor({ address }, password);
  return { begun, hashFrom };
}

test("the passwords of a network do not wait for the many of another", async () => {
  const { begun, hashFrom } = listed();
  const flood = Array.from({ length: 30 }, (_, i) => hashFrom("198.51.100.7", `flood ${i}`));
  const others = ["2001:db8::1", "203.0.113.9"].map((address) => hashFrom(address, address));
  await Promise.all([...flood, ...others]);
  // At most two were running before, and one of each network has begun by then.
  for (const address of ["2001:db8::1", "203.0.113.9"]) expect(begun.indexOf(address)).toBeLessThan(5);
  expect(begun).toHaveLength(32);
});

test("when too many passwords wait, those of the network with the most are refused", async () => {
  const { hashFrom } = listed();
  const flood = Array.from({ length: 100 }, (_, i) =>
    hashFrom("198.51.100.7", `flood ${i}`).catch((error) => error.message),
  );
  const other = hashFrom("203.0.113.9", "other");
  const refused = (await Promise.all(flood)).filter((result) => !result.startsWith("flood"));
  expect(await other).toBe("other");
  expect(refused.length).toBeGreaterThan(30);
  expect(new Set(refused).size).toBe(1);
});

const RULES = new PasswordRules({ passwordRules: { length: 12, classes: ["upper", "lower", "digit", "special"] } });
const LENGTH = "password must have at least 12 characters";
const UPPER = "password must have an upper case letter";
const LOWER = "password must have a lower case letter";
const DIGIT = "password must have a digit";
const SPECIAL = "password must have a special character, such as ! or -";

test("a password is stored as argon2id with a random salt and the costs that logins are verified with", async () => {
  const [one, other] = await Promise.all([hashPassword("Correct-Horse-8!"), hashPassword("Correct-Horse-8!")]);
  expect(one).toMatch(/^\$argon2id\$v=19\$m=12288,t=3,p=1\$/);
  expect(one).not.toBe(other);
});

test.each<[string, string[]]>([
  ["Correct-Horse-7!", []],
  ["Aa1!aaaaaaaa", []],
  ["Äß1€ßßßßßßßß", []],
  ["Aa1!aaaaaaa", [LENGTH]],
  ["Aa1!aaaaaaa😀", []],
  [`Aa1!${"é".repeat(7)}`.normalize("NFD"), [LENGTH]],
  [`Aa1!${"x".repeat(124)}`, []],
  [`Aa1!${"x".repeat(125)}`, ["password must have at most 128 characters"]],
  ["correct-horse-7!", [UPPER]],
  ["CORRECT-HORSE-7!", [LOWER]],
  ["Correct-Horse-!!", [DIGIT]],
  ["CorrectHorse77", [SPECIAL]],
  ["Correct Horse 77", [SPECIAL]],
  ["", [LENGTH, UPPER, LOWER, DIGIT, SPECIAL]],
])("the new password %j breaks the rules %j", (password, faults) => expect(RULES.faults(password)).toEqual(faults));
