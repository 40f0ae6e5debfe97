import { expect, test } from "vitest";
import { readHash, storedForm, UnusableHash } from "../../../rest-gateway/auth/password-hashes.ts";
import { PasswordHashing } from "../../../rest-gateway/auth/passwords.ts";

/** Published test vectors: the source, the password, the hash as the system exports it. */
const VECTORS: readonly (readonly [source: string, password: string, hash: string])[] = [
  ["bcrypt $2a$ of Openwall", "U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"],
  ["bcrypt $2b$ of Openwall", "U*U*U", "$2b$05$XXXXXXXXXXXXXXXXXXXXXOAcXxm9kjPGEMsLznoKqmqw7tc8WCx4a"],
  ["bcrypt $2y$ of Openwall", "U*U*", "$2y$05$CCCCCCCCCCCCCCCCCCCCC.VGOzA784oUp/Z0DY336zx7pLYAy0lwK"],
  ["bcrypt of a password in UTF-8", "ππππππππ", "$2a$10$.TtQJ4Jr6isd4Hp.mVfZeuh6Gws4rOQ/vdBczhDx.19NFK0Y84Dle"],
  [
    "bcrypt, which ignores what follows 72 bytes",
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789chars after 72 are ignored",
    "$2a$05$abcdefghijklmnopqrstuu5s2v8.iXieOjg/.AySBTTZIIVFJeBui",
  ],
  [
    "scrypt of RFC 7914 as a PHC string",
    "pleaseletmein",
    "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofLVQylVYT8Pz2LUlwUkKpr55h6F3A1lHkDfzwF7RVdYhw",
  ],
  [
    "Firebase, from github.com/firebase/scrypt",
    "user1password",
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==",
  ],
  [
    "Firebase in base64url",
    "user1password",
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC-ixf3L2lw==$lSrfV15cpx95_sZS2W9c9Kp6i_LVgQNDNC_qzrCnh1SAyZvqmZqAjTdn3aoItz-VHjoZilo78198JAdRuid5lQ==",
  ],
  [
    "Firebase in Supabase",
    "mytestpassword",
    "$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=ou9tdYTGyYm8kuR6Dt0Bp0kDuAYoXrK16mbZO4yGwAn3oLspjnN0/c41v8xZnO1n14J3MjKj1b2g6AUCAlFwMw==$C0sHCg9ek77hsg==$zKVTMvnWVw5BBOZNUdnsalx4c4c7y/w7IS5p6Ut2+CfEFFlz37J9huyQfov4iizN8dbjvEJlM5tQaJP84+hfTw==",
  ],
  ["PBKDF2 of Django", "lètmein", "pbkdf2_sha256$100000$seasalt2$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI="],
  ["PBKDF2 of Django with SHA-1", "lètmein", "pbkdf2_sha1$100000$seasalt2$dK/dL+ySBZ5zoR0+Zk3SB/VsH0U="],
  ["bcrypt of Django", "U*U", "bcrypt$$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"],
  [
    "argon2 of Django",
    "password",
    "argon2$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
  ],
  ["ASP.NET Identity 2", "my password", "AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJg=="],
  [
    "ASP.NET Identity 2, another salt",
    "my password",
    "ANXrDknc7fGPpigibZXXZFMX4aoqz44JveK6jQuwY3eH/UyPhvr5xTPeGYEckLxz9A==",
  ],
  ["ASP.NET Identity 3 with SHA-1", "my password", "AQAAAAAAAAD6AAAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M"],
  [
    "ASP.NET Identity 3 with SHA-256",
    "my password",
    "AQAAAAEAA9CQAAAAIESkQuj2Du8Y+kbc5lcN/W/3NiAZFEm11P27nrSN5/tId+bR1SwV8CO1Jd72r4C08OLvplNlCDc3oQZ8efcW+jQ=",
  ],
  [
    "ASP.NET Identity 3 with SHA-512",
    "my password",
    "AQAAAAIAAYagAAAAEAABAgMEBQYHCAkKCwwNDg/Q8A0WMKbtHQJQ2DHCdoEeeFBrgNlldq6vH4qX/CGqGQ==",
  ],
  [
    "argon2id of the reference",
    "password",
    "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
  ],
  [
    "argon2i of the reference",
    "password",
    "$argon2i$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$wWKIMhR9lyDFvRz9YTZweHKfbftvj+qf+YFY4NeBbtA",
  ],
  [
    "argon2i of version 1.0",
    "password",
    "$argon2i$m=65536,t=2,p=1$c29tZXNhbHQ$9sTbSlTio3Biev89thdrlKKiCaYsjjYVJxGAL3swxpQ",
  ],
];

test.each(VECTORS)("the hash of %s matches its password, and no other", async (_source, password, hash) => {
  const verify = readHash(storedForm(hash));
  expect(await verify(password)).toBe(true);
  expect(await verify(password.slice(1))).toBe(false);
  expect(await verify(password.toUpperCase().replace("U*U", "u*u"))).toBe(false);
});

test("a hash of Django or ASP.NET is stored in the form of a PHC string, all others as they are", () => {
  expect(storedForm("pbkdf2_sha256$100000$seasalt2$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI=")).toBe(
    "$pbkdf2-sha256$i=100000$c2Vhc2FsdDI$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI",
  );
  expect(storedForm("AQAAAAIAAAAyAAAAEOMwvh3+FZxqkdMBz2ekgGhwQ4B6pZWND6zgESBuWiHw")).toBe(
    "$pbkdf2-sha512$i=50$4zC+Hf4VnGqR0wHPZ6SAaA$cEOAeqWVjQ+s4BEgbloh8A",
  );
  const bcrypt = "$2b$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW";
  expect(storedForm(bcrypt)).toBe(bcrypt);
});

const SALTED = "$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";

test.each([
  ["$2b$15$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "the cost of bcrypt must be from 4 to 14"],
  ["$2b$03$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", "the cost of bcrypt must be from 4 to 14"],
  [`$argon2id$v=19$m=131073,t=1,p=1${SALTED}`, "verifying the password would take more than 128 MiB of memory"],
  [`$argon2id$v=19$m=65536,t=17,p=1${SALTED}`, "m · t of argon2 must be at most 1048576"],
  [`$argon2id$v=19$m=16,t=1,p=4${SALTED}`, "argon2 needs t and p of at least 1, and m of at least 8 · p"],
  [`$argon2id$v=19$m=65536,t=0,p=1${SALTED}`, "argon2 needs t and p of at least 1, and m of at least 8 · p"],
  [`$scrypt$ln=18,r=8,p=1${SALTED}`, "verifying the password would take more than 128 MiB of memory"],
  [`$scrypt$ln=99,r=8,p=1${SALTED}`, "verifying the password would take more than 128 MiB of memory"],
  [`$scrypt$ln=17,r=8,p=3${SALTED}`, "N · r · p of scrypt must be at most 2097152"],
  [`$scrypt$ln=14,r=0,p=1${SALTED}`, "the parameters of scrypt must be at least 1"],
  [
    `$fbscrypt$v=1,n=20,r=8,p=1,ss=Bw==,sk=Bw==${SALTED}`,
    "verifying the password would take more than 128 MiB of memory",
  ],
  [
    "pbkdf2_sha256$2000001$seasalt2$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI=",
    "PBKDF2 must have from 1 to 2000000 iterations, for each block of the digest that it returns",
  ],
  [
    // Two blocks of SHA-1.
    "$pbkdf2-sha1$i=1000001$c2Vhc2FsdDI$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI",
    "PBKDF2 must have from 1 to 2000000 iterations, for each block of the digest that it returns",
  ],
])("the hash %s is refused: %s", (hash, reason) => {
  expect(() => storedForm(hash)).toThrow(new UnusableHash(reason));
});

test.each([
  "",
  "secret",
  "!",
  "5f4dcc3b5aa765d61d8327deb882cf99",
  "{SSHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
  "$1$salt$qJH7.N4xYta3aEG/dfqo/0",
  "$2x$05$/OK.fbVrR/bpIqNJ5ianF.CE5elHaaO4EbggVDjb8P19RukzXSM3e",
  "$2b$12$short",
  `$argon2d$v=19$m=65536,t=2,p=1${SALTED}`,
  `$argon2id$v=20$m=65536,t=2,p=1${SALTED}`,
  "$argon2id$",
  `$argon2id$v=19$m=65536,t=2,p=1${SALTED}\n`,
  `$scrypt$ln=14,r=8${SALTED}`,
  "pbkdf2_sha512$1000$salt$Tl4GMr+Yt1zzO1sbKoUaDBdds5NkR3RxaDWuQsliFrI=",
  "bcrypt_sha256$$2b$12$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW",
  "AQAAAAIAAAAyAAAAEOMwvh3+FZxqkdMBz2ekgGhwQ4A=",
  "AQAAAAkAAAAyAAAAEOMwvh3+FZxqkdMBz2ekgGhwQ4B6pZWND6zgESBuWiHw",
  "AQAAAAIAAAAy/////+Mwvh3+FZxqkdMBz2ekgGhwQ4B6pZWND6zgESBuWiHw",
])("%j is not a hash that accounts may have", (hash) => {
  expect(() => storedForm(hash)).toThrow(/^the password hash has none of the accepted formats: /);
});

test("no password matches a hash that is malformed or costs too much", async () => {
  const hashing = new PasswordHashing();
  for (const hash of ["$argon2id$", "$2b$31$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"])
    expect(await hashing.matches("U*U", hash, { address: "198.51.100.7" })).toBe(false);
});
