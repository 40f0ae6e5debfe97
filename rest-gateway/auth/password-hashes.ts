import { createCipheriv, createHash, pbkdf2, scrypt, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";

// The hashes of passwords that accounts may have. The service makes those of argon2id; the others are of users who were imported from
// another system. docs/existing-database.md lists them.

/** Loaded with the first sign-in: it takes memory from the start on. */
const library = () => import("@node-rs/argon2");

/** The functions of the library, in an object so that tests can count the calls. */
export const argon2 = {
  hash: async (password: string, costs: Costs): Promise<string> => (await library()).hash(password, costs),
  verify: async (hash: string, password: string): Promise<boolean> => (await library()).verify(hash, password),
};

/** The costs of a hash. `memoryCost` is KiB. */
export type Costs = { readonly memoryCost: number; readonly timeCost: number; readonly parallelism: number };

/** Whether a password is the one of a hash. */
export type Verify = (password: string) => Promise<boolean>;

/** A hash that no password is verified against. The message is the reason. */
export class UnusableHash extends Error {}

// Beyond these limits one sign-in would take more than about a second, or too much memory.

/** Bytes that the verification of a password may use. */
export const MAX_MEMORY = 128 * 1024 * 1024;
/** Kibibytes that argon2 may write, in all passes together. */
export const MAX_ARGON2_KIBIBYTES = 1024 * 1024;
/** The logarithm of the rounds of bcrypt. */
export const MAX_BCRYPT_COST = 14;
/** N · r · p of scrypt. */
export const MAX_SCRYPT_WORK = 2 ** 21;
/** Iterations of PBKDF2, for each block of the digest that it returns. */
export const MAX_PBKDF2_ITERATIONS = 2_000_000;

type Read = (parts: Readonly<Record<string, string>>, text: string) => Verify;
type Format = { readonly pattern: RegExp; readonly read: Read };

/** PHC strings write base64 without padding; Firebase writes it with padding. */
const BASE64 = "[A-Za-z0-9+/_-]{2,512}={0,2}";
const SALT_AND_KEY = `\\$(?<salt>${BASE64})\\$(?<key>${BASE64})$`;

/** The forms in which hashes are stored. */
const FORMATS: readonly Format[] = [
  {
    pattern: new RegExp(
      `^\\$argon2(?:id|i)\\$(?:v=(?:16|19)\\$)?m=(?<m>\\d{1,9}),t=(?<t>\\d{1,9}),p=(?<p>\\d{1,3})${SALT_AND_KEY}`,
    ),
    read: readArgon2,
  },
  { pattern: /^\$2[aby]\$(?<cost>\d\d)\$[./A-Za-z0-9]{53}$/, read: readBcrypt },
  {
    pattern: new RegExp(`^\\$scrypt\\$ln=(?<ln>\\d{1,2}),r=(?<r>\\d{1,6}),p=(?<p>\\d{1,6})${SALT_AND_KEY}`),
    read: ({ ln, r, p, salt, key }) => {
      const costs = scryptCosts(ln!, r!, p!);
      const expected = bytesOf(key!);
      return async (password) => isEqual(await scryptOf(password, bytesOf(salt!), expected.length, costs), expected);
    },
  },
  {
    pattern: new RegExp(
      `^\\$fbscrypt\\$v=1,n=(?<n>\\d{1,2}),r=(?<r>\\d{1,6}),p=(?<p>\\d{1,6}),ss=(?<separator>${BASE64}),sk=(?<signer>${BASE64})${SALT_AND_KEY}`,
    ),
    read: readFirebase,
  },
  {
    pattern: new RegExp(
      `^\\$pbkdf2-(?<digest>sha1|sha256|sha512)\\$i=(?<iterations>\\d{1,9})(?:,l=\\d{1,3})?${SALT_AND_KEY}`,
    ),
    read: readPbkdf2,
  },
];

/** Reads a stored hash. Throws UnusableHash if it is malformed, or costs too much to verify. */
export function readHash(text: string): Verify {
  for (const { pattern, read } of FORMATS) {
    const found = pattern.exec(text);
    if (found !== null) return read(found.groups ?? {}, text);
  }
  throw new UnusableHash(
    "the password hash has none of the accepted formats: bcrypt ($2a$, $2b$, $2y$), argon2id, argon2i, $scrypt$, $fbscrypt$ (Firebase), " +
      "PBKDF2 of Django (pbkdf2_sha256$) or ASP.NET Identity, or $pbkdf2-sha256$",
  );
}

/** The algorithm and its costs: `"$argon2id$v=19$m=12288,t=3,p=1"` */
export const costsOf = (stored: string): string => stored.split("$").slice(0, 4).join("$");

const bytesOf = (base64: string): Buffer => Buffer.from(base64, "base64");
const isEqual = (one: Buffer, other: Buffer): boolean => one.length === other.length && timingSafeEqual(one, other);

function refuse(isTooMuch: boolean, reason: string): void {
  if (isTooMuch) throw new UnusableHash(reason);
}

const refuseMemory = (bytes: number): void =>
  refuse(bytes > MAX_MEMORY, `verifying the password would take more than ${MAX_MEMORY / 1024 ** 2} MiB of memory`);

function readArgon2({ m, t, p }: Readonly<Record<string, string>>, text: string): Verify {
  const [memory, passes, lanes] = [Number(m), Number(t), Number(p)];
  refuse(passes < 1 || lanes < 1 || memory < 8 * lanes, "argon2 needs t and p of at least 1, and m of at least 8 · p");
  refuseMemory(memory * 1024);
  refuse(memory * passes > MAX_ARGON2_KIBIBYTES, `m · t of argon2 must be at most ${MAX_ARGON2_KIBIBYTES}`);
  // As passwords.ts hashes it.
  return (password) => argon2.verify(text, password.normalize("NFC"));
}

function readBcrypt({ cost }: Readonly<Record<string, string>>, text: string): Verify {
  const isOutside = Number(cost) < 4 || Number(cost) > MAX_BCRYPT_COST;
  refuse(isOutside, `the cost of bcrypt must be from 4 to ${MAX_BCRYPT_COST}`);
  // Loaded only where there are such hashes.
  return async (password) => (await import("@node-rs/bcrypt")).verify(password, text);
}

type ScryptCosts = { readonly N: number; readonly r: number; readonly p: number; readonly maxmem: number };

function scryptCosts(logarithm: string, r: string, p: string): ScryptCosts {
  const costs = { N: 2 ** Number(logarithm), r: Number(r), p: Number(p), maxmem: 2 * MAX_MEMORY };
  refuse(costs.N < 2 || costs.r < 1 || costs.p < 1, "the parameters of scrypt must be at least 1");
  refuseMemory(128 * costs.N * costs.r);
  refuse(costs.N * costs.r * costs.p > MAX_SCRYPT_WORK, `N · r · p of scrypt must be at most ${MAX_SCRYPT_WORK}`);
  return costs;
}

const scryptOf = promisify<string, Buffer, number, ScryptCosts, Buffer>(scrypt);
const pbkdf2Of = promisify(pbkdf2);

/** Firebase encrypts the signer key of the project with a key that scrypt derives. Source: github.com/firebase/scrypt. */
function readFirebase({ n, r, p, separator, signer, salt, key }: Readonly<Record<string, string>>): Verify {
  const costs = scryptCosts(n!, r!, p!);
  const salted = Buffer.concat([bytesOf(salt!), bytesOf(separator!)]);
  return async (password) => {
    const cipher = createCipheriv("aes-256-ctr", await scryptOf(password, salted, 32, costs), Buffer.alloc(16));
    return isEqual(cipher.update(bytesOf(signer!)), bytesOf(key!));
  };
}

function readPbkdf2({ digest, iterations, salt, key }: Readonly<Record<string, string>>): Verify {
  const expected = bytesOf(key!);
  const count = Number(iterations);
  const blocks = Math.ceil(expected.length / createHash(digest!).digest().length);
  const isOutside = count < 1 || count * blocks > MAX_PBKDF2_ITERATIONS;
  refuse(
    isOutside,
    `PBKDF2 must have from 1 to ${MAX_PBKDF2_ITERATIONS} iterations, for each block of the digest that it returns`,
  );
  return async (password) =>
    isEqual(await pbkdf2Of(password, bytesOf(salt!), count, expected.length, digest!), expected);
}

/**
 * A hash as another system exports it, in the form in which it is stored:
 *
 *   storedForm("pbkdf2_sha256$1000000$abc$a2V5") // "$pbkdf2-sha256$i=1000000$YWJj$a2V5", of Django
 *   storedForm("AQAAAAIAAYag…")                  // "$pbkdf2-sha512$i=100000$…", of ASP.NET Identity
 *   storedForm("$2b$12$…")                       // as it is
 * Throws UnusableHash as readHash does.
 */
export function storedForm(exported: string): string {
  const stored = ofDjango(exported) ?? ofAspNet(exported) ?? exported;
  readHash(stored);
  return stored;
}

const phc = (digest: string, iterations: number | string, salt: Buffer, key: Buffer): string =>
  `$pbkdf2-${digest}$i=${iterations}$${withoutPadding(salt)}$${withoutPadding(key)}`;

const withoutPadding = (bytes: Buffer): string => bytes.toString("base64").replace(/=+$/, "");

/** Django writes the name of the algorithm before hashes of bcrypt and argon2. Its salt is a text. */
function ofDjango(text: string): string | null {
  const [, digest, iterations, salt, key] =
    /^pbkdf2_(sha1|sha256)\$(\d{1,9})\$([^$]{1,200})\$([A-Za-z0-9+/]+=*)$/.exec(text) ?? [];
  if (key !== undefined) return phc(digest!, iterations!, Buffer.from(salt!), bytesOf(key));
  return /^(?:argon2|bcrypt\$)(\$.*)$/.exec(text)?.[1] ?? null;
}

/** The digests of version 3, by their number. */
const PRFS = ["sha1", "sha256", "sha512"] as const;

/** The first byte is 0 for version 2 and 1 for version 3. Source: PasswordHasher.cs of ASP.NET Core. */
function ofAspNet(text: string): string | null {
  if (!/^A[A-Za-z0-9+/]{30,700}={0,2}$/.test(text)) return null;
  const blob = bytesOf(text);
  if (blob[0] === 0 && blob.length === 49) return phc("sha1", 1000, blob.subarray(1, 17), blob.subarray(17));
  if (blob[0] !== 1) return null;
  const [prf, iterations, saltLength] = [blob.readUInt32BE(1), blob.readUInt32BE(5), blob.readUInt32BE(9)];
  const [salt, key] = [blob.subarray(13, 13 + saltLength), blob.subarray(13 + saltLength)];
  const digest = PRFS[prf];
  return digest === undefined || key.length < 16 ? null : phc(digest, iterations, salt, key);
}
