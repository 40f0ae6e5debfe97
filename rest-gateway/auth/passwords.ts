import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import type { Config, PasswordClass } from "../../config/config.ts";
import { FairQueue } from "../../db/admission/fair-queue.ts";
import { networkOf } from "../../db/network.ts";
import type { Account } from "../../identity/account.ts";
import { problem } from "../../problems/problem.ts";
import { argon2, type Costs, costsOf, readHash, UnusableHash, type Verify } from "./password-hashes.ts";
import { badFields } from "./problem.ts";
import type { EventName } from "./repository.ts";
import {
  type Client,
  guard,
  type Login,
  type ReservedLogin,
  reserveLogin,
  settle,
  type Throttled,
} from "./throttle.ts";

/** Characters of a password. Applies to logins too. */
export const MAX_PASSWORD = 128;

export type PasswordSettings = Pick<Config, "passwordRules">;

/**
 * The algorithm is argon2id, the default of the library. Of the costs that OWASP recommends, those whose memory is a multiple of a huge
 * page (2 MiB): with 19 MiB and two passes, the system spends as much time on handing out the pages as the hash takes.
 */
const COSTS: Costs = { memoryCost: 12_288, timeCost: 3, parallelism: 1 };

type Rule = { readonly holds: (password: string) => boolean; readonly message: string };

/** The classes of characters, by their name in PASSWORD_RULES. */
const CLASSES: Readonly<
  Record<PasswordClass, { readonly pattern: RegExp; readonly name: string; readonly hint?: string }>
> = {
  upper: { pattern: /\p{Lu}/u, name: "an upper case letter" },
  lower: { pattern: /\p{Ll}/u, name: "a lower case letter" },
  digit: { pattern: /\p{Nd}/u, name: "a digit" },
  special: { pattern: /[\p{P}\p{S}]/u, name: "a special character", hint: ", such as ! or -" },
};

const AND = new Intl.ListFormat("en-GB");
const HAVE = "must have ";

/** `["must have a digit", "must have an upper case letter"]` → `must have a digit and an upper case letter` */
export const inOneSentence = (rules: readonly string[]): string =>
  AND.format(
    rules.every((rule) => rule.startsWith(HAVE))
      ? rules.map((rule, i) => (i === 0 ? rule : rule.slice(HAVE.length)))
      : rules,
  );

/** What a new password must have, as PASSWORD_RULES says. */
export class PasswordRules {
  /** A sentence for users: `At least 12 characters, with an upper case letter and a digit.` */
  readonly hint: string;
  /** Characters of the shortest one. */
  readonly length: number;
  readonly #rules: readonly Rule[];

  constructor({ passwordRules: { length: min, classes: required } }: PasswordSettings) {
    const classes = required.map((name) => CLASSES[name]);
    const names = AND.format(classes.map(({ name }) => name));
    this.hint = `At least ${min} characters${names && `, with ${names}`}.`;
    this.length = min;
    this.#rules = [
      {
        holds: (password) => [...password.normalize("NFC")].length >= min,
        message: `must have at least ${min} characters`,
      },
      {
        holds: (password) => password.length <= MAX_PASSWORD,
        message: `must have at most ${MAX_PASSWORD} characters`,
      },
      {
        holds: (password) => password.isWellFormed() && !password.includes("\0"),
        message: "must not contain NUL characters or unpaired surrogates",
      },
      ...classes.map(
        ({ pattern, name, hint = "" }): Rule => ({
          holds: (password) => pattern.test(password),
          message: `must have ${name}${hint}`,
        }),
      ),
    ];
  }

  /** The rules that a password breaks, with the name of its field: `["password must have at least 12 characters"]` */
  faults(password: string, field = "password"): string[] {
    return this.broken(password).map((rule) => `${field} ${rule}`);
  }

  /** The same without a name: `["must have at least 12 characters"]` */
  broken(password: string): string[] {
    return this.#rules.filter(({ holds }) => !holds(password)).map(({ message }) => message);
  }

  /** Throws a Problem that names each broken rule. */
  require(password: string): void {
    const faults = this.faults(password);
    if (faults.length > 0) throw badFields(faults.map((message) => ({ field: "password", message })));
  }
}

/** Returns a PHC string. The password is normalized first, because keyboards send different Unicode forms of a letter. */
export const hashPassword = (password: string, costs = COSTS): Promise<string> =>
  argon2.hash(password.normalize("NFC"), costs);

export type HashPassword = (password: string) => Promise<string>;

/** A hash takes a thread, 12 MiB and about 7 ms: more at once would only slow down other work. */
const AT_ONCE = Math.max(1, Math.min(2, availableParallelism() - 1));
/** Places for passwords that wait or are being hashed. Above half of them, a network with the average or more gets no further one. */
const MAX_PLACES = 64;

/**
 * Hashes and verifies passwords, a few at a time. The network whose passwords have taken the least time comes first. A place is taken
 * before the database is asked for the account, so that a sign-in that is refused costs little.
 */
export class PasswordHashing {
  readonly #hash: HashPassword;
  #decoy: Promise<string> | null = null;
  readonly #waiting = new FairQueue<() => void>();
  /** The number of places by network. */
  readonly #places = new Map<string, number>();
  #taken = 0;
  #running = 0;

  constructor(hash: HashPassword = hashPassword) {
    this.#hash = hash;
  }

  /** Throws Problem "busy" if the network of the client gets no further place. */
  requirePlace({ address }: Client): void {
    if (this.#taken < MAX_PLACES / 2) return;
    const own = this.#places.get(networkOf(address)) ?? 0;
    if (this.#taken >= MAX_PLACES || own * this.#places.size >= this.#taken) throw problem("busy", { retryAfter: 1 });
  }

  /** Runs work that hashes passwords of the client, in a place. Rejects as requirePlace throws. */
  async inPlace<Result>(client: Client, work: () => Promise<Result>): Promise<Result> {
    this.requirePlace(client);
    const network = networkOf(client.address);
    this.#take(network, 1);
    try {
      return await work();
    } finally {
      this.#take(network, -1);
    }
  }

  /** Takes a place for one password. */
  hashFor(client: Client, password: string): Promise<string> {
    return this.inPlace(client, () => this.hash(password, client));
  }

  /** Call this, and `matches`, in a place. */
  hash(password: string, client: Client): Promise<string> {
    return this.#inTurn(client, () => this.#hash(password));
  }

  /**
   * False for a password that cannot be valid. `hash` is null for an unknown account, for which the password is verified against the
   * `decoy`: the hash of another account, or one with the costs of new hashes.
   */
  async matches(password: string, hash: string | null, client: Client, decoy: string | null = null): Promise<boolean> {
    const isPossible = password !== "" && password.length <= MAX_PASSWORD && !password.includes("\0");
    const ownDecoy = await this.#decoyHash();
    const known = usable(hash);
    const verify = known ?? usable(decoy) ?? readHash(ownDecoy);
    const isRight = await this.#inTurn(client, () => verify(isPossible ? password : ""));
    return isRight && known !== null && isPossible;
  }

  /** Whether a hash has the algorithm and the costs of new hashes. */
  async isCurrent(hash: string): Promise<boolean> {
    return costsOf(hash) === costsOf(await this.#decoyHash());
  }

  /**
   * Verified for an unknown login, so that it takes as much work as a wrong password. It is created with the first login, whether that is
   * known or not.
   */
  #decoyHash(): Promise<string> {
    this.#decoy ??= this.#hash(randomBytes(32).toString("hex"));
    return this.#decoy;
  }

  async #inTurn<Result>({ address }: Client, work: () => Promise<Result>): Promise<Result> {
    const network = networkOf(address);
    if (this.#running < AT_ONCE) this.#running++;
    else await new Promise<void>((begin) => this.#waiting.add(network, begin));
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.#waiting.use(network, performance.now() - start);
      const next = this.#waiting.take();
      // The place passes to the next in the queue.
      if (next) next.item();
      else this.#running--;
    }
  }

  #take(network: string, places: number): void {
    const own = (this.#places.get(network) ?? 0) + places;
    if (own === 0) this.#places.delete(network);
    else this.#places.set(network, own);
    this.#taken += places;
  }
}

/** Null for a hash that no password matches, such as one that SQL has stored and that costs too much to verify. */
function usable(hash: string | null): Verify | null {
  try {
    return hash === null ? null : readHash(hash);
  } catch (error) {
    if (error instanceof UnusableHash) return null;
    throw error;
  }
}

/** The security event and the error for a wrong password. */
export type WrongPassword = { readonly event: EventName; error(): Error };

/** A login whose password is right. The caller must settle its attempt. */
export type VerifiedLogin = ReservedLogin & { readonly account: Account };

/**
 * Verifies the password of an account, for logins and for changes that require the password again. Reserves an attempt, which the caller
 * settles. A wrong password counts as a failed login and rejects with the error of `wrong`. Rejects with Problem "too many attempts" before
 * the password is checked, and with "busy".
 */
export const verifyPassword = (
  auth: Throttled & { readonly hashing: PasswordHashing },
  who: Login,
  password: string,
  client: Client,
  wrong: WrongPassword,
): Promise<VerifiedLogin> =>
  auth.hashing.inPlace(client, async () => {
    const { hashing } = auth;
    const login = await reserveLogin(auth, who, client);
    const { account, attempt } = login;
    const hash = account?.passwordHash ?? null;
    const isRight = await guard(auth, attempt, hashing.matches(password, hash, client, login.decoy));
    if (isRight && account !== null && hash !== null) {
      // An imported hash is replaced by one of this service, because only now is the password known.
      const isCurrent = await guard(auth, attempt, hashing.isCurrent(hash));
      const passwordHash = isCurrent ? hash : await guard(auth, attempt, replaceHash(auth, account, password, client));
      return { ...login, account: { ...account, passwordHash } };
    }
    const event = { event: wrong.event, userId: account?.id ?? null, address: client.address };
    await settle(auth, attempt, true, event);
    throw wrong.error();
  });

/** The hash of the account. If the password has been changed meanwhile, its hash stays. */
async function replaceHash(
  { functions, hashing }: Parameters<typeof verifyPassword>[0],
  { id, passwordHash }: Account,
  password: string,
  client: Client,
): Promise<string | null> {
  const hash = await hashing.hash(password, client);
  return (await functions.call("replace_hash($1, $2, $3)", [id, passwordHash, hash])) ? hash : passwordHash;
}
