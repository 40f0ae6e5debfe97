import { expect, test } from "vitest";
import { readHash } from "../../rest-gateway/auth/password-hashes.ts";
import { useTransactions } from "../support/roles.ts";

const inTransaction = useTransactions();

const SALTED = "$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
const BCRYPT = "CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";

/** At each limit, and one step beyond it. */
const HASHES = [
  ...["03", "04", "14", "15", "31"].map((cost) => `$2b$${cost}$${BCRYPT}`),
  ...["$2a$06$", `$2x$05$${BCRYPT}`, `$2y$05$${BCRYPT}`, `$2a$05$${BCRYPT}.`, `$2a$05$${BCRYPT}\n`],
  ...[
    "m=8,t=1,p=1",
    "m=15,t=1,p=2",
    "m=8,t=0,p=1",
    "m=8,t=1,p=0",
    "m=131072,t=8,p=1",
    "m=131072,t=9,p=1",
    "m=131073,t=1,p=1",
  ].map((costs) => `$argon2id$v=19$${costs}${SALTED}`),
  ...["m=9999999,t=1,p=1", "m=999999999,t=999999999,p=999"].map((costs) => `$argon2i$${costs}${SALTED}`),
  `$argon2d$v=19$m=8,t=1,p=1${SALTED}`,
  `$argon2id$v=20$m=8,t=1,p=1${SALTED}`,
  "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ",
  ...[
    "ln=0,r=8,p=1",
    "ln=1,r=0,p=1",
    "ln=1,r=1,p=0",
    "ln=17,r=8,p=2",
    "ln=17,r=8,p=3",
    "ln=18,r=8,p=1",
    "ln=99,r=999999,p=999999",
  ].flatMap((costs) => [
    `$scrypt$${costs}${SALTED}`,
    `$fbscrypt$v=1,${costs.replace("ln", "n")},ss=Bw==,sk=Bw==${SALTED}`,
  ]),
  ...[0, 1, 1_000_000, 1_000_001, 2_000_000, 2_000_001].flatMap((count) => [
    `$pbkdf2-sha1$i=${count}${SALTED}`,
    `$pbkdf2-sha256$i=${count}${SALTED}`,
    `$pbkdf2-sha512$i=${count},l=32${SALTED}`,
  ]),
  ...["", "!", "secret", "$1$salt$qJH7.N4xYta3aEG/dfqo/0"],
];

const isRead = (hash: string): boolean => {
  try {
    readHash(hash);
    return true;
  } catch {
    return false;
  }
};

test("accounts get the hashes that the service verifies, and no others", () =>
  inTransaction(async (db) => {
    for (const hash of HASHES)
      expect(await db.owner.call("auth_private.usable_hash", hash), hash).toBe(isRead(hash) ? hash : null);
  }));
