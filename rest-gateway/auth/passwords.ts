import { hash, verify } from "@node-rs/argon2";

/** The functions of the library, in one object so that tests can count their calls. */
export const argon2 = { hash, verify };

export const MIN_PASSWORD = 12;
/** As many are read at login too. */
export const MAX_PASSWORD = 128;

/** Memory in KiB. The algorithm is argon2id, the library's own choice. */
const COSTS = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

type Rule = { readonly holds: (password: string) => boolean; readonly message: string };

const RULES: readonly Rule[] = [
  {
    holds: (password) => [...password.normalize("NFC")].length >= MIN_PASSWORD,
    message: `password must have at least ${MIN_PASSWORD} characters`,
  },
  {
    holds: (password) => password.length <= MAX_PASSWORD,
    message: `password must have at most ${MAX_PASSWORD} characters`,
  },
  {
    holds: (password) => password.isWellFormed() && !password.includes("\0"),
    message: "password must not have a NUL character or half of a surrogate pair",
  },
  { holds: (password) => /\p{Lu}/u.test(password), message: "password must have an upper case letter" },
  { holds: (password) => /\p{Ll}/u.test(password), message: "password must have a lower case letter" },
  { holds: (password) => /\p{Nd}/u.test(password), message: "password must have a digit" },
  {
    holds: (password) => /[\p{P}\p{S}]/u.test(password),
    message: "password must have a special character, such as ! or -",
  },
];

/** Which rules a new password breaks, as sentences: `passwordFaults("Secret-7")` → `["password must have at least 12 characters"]` */
export const passwordFaults = (password: string): string[] =>
  RULES.filter(({ holds }) => !holds(password)).map(({ message }) => message);

/** A PHC string. Passwords are hashed in one Unicode form, whatever keyboard they were typed on. */
export const hashPassword = (password: string): Promise<string> => argon2.hash(password.normalize("NFC"), COSTS);
