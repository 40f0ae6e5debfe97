import type { Account } from "../../identity/account.ts";
import type { Linking } from "../../rest-gateway/auth/federated.ts";
import type { Database } from "../../rest-gateway/auth/functions.ts";
import { refuseRaised } from "../../rest-gateway/auth/problem.ts";
import { noteEvent } from "../../rest-gateway/auth/repository.ts";
import type { SecretBox } from "../../rest-gateway/auth/secret-box.ts";
import type { CodePurpose, SignInCodes } from "../../rest-gateway/auth/sign-in-codes.ts";
import { signInFailure } from "./failure.ts";
import type { IdentityRepository, SealedIdentity } from "./identity-repository.ts";
import type { ConfirmedIdentity, Provider } from "./provider.ts";

/** An identity, and the name of the provider that has confirmed it. */
export type Confirmed = {
  readonly provider: string;
  readonly identity: SealedIdentity;
  /** The user of `/auth/v1` whom the identity is linked to. */
  readonly linking?: Linking | undefined;
};

/** The same in JSON. */
type Stored = Omit<Confirmed, "identity"> & {
  readonly identity: Omit<SealedIdentity, "signIn"> & { readonly signIn: string | null };
};

export type CompletionOptions = Database & {
  readonly identities: IdentityRepository;
  readonly codes: SignInCodes;
  /** Whether SIGNUP keeps identities without an account from getting one. */
  readonly isClosed: boolean;
  /** Encrypts what the database must not read. */
  readonly box: SecretBox;
};

/** Turns an identity that a provider has confirmed into an account, or into a code that a client exchanges for one. */
export class Completion {
  readonly #options: CompletionOptions;

  constructor(options: CompletionOptions) {
    this.#options = options;
  }

  /** The identity as it is stored. */
  seal(identity: ConfirmedIdentity): SealedIdentity {
    const { signIn } = identity;
    const owner = ownerOf(identity.issuer, identity.subject);
    return { ...identity, signIn: signIn === null ? null : this.#options.box.seal(signIn, owner) };
  }

  /**
   * The account of an identity, by issuer and subject. If it has none and the provider may sign users up, a new account is
   * created: an e-mail is never enough to use an existing one. Rejects with Problem, also if a trigger of the
   * database refuses the new user.
   */
  async accountOf(identity: SealedIdentity, { settings }: Provider, address: string): Promise<Account> {
    const { identities } = this.#options;
    const found = await identities.use(identity, settings.name);
    const account = found ?? (await this.#register(identity, settings, address));
    if (!account.isDisabled) return account;
    const detail = { reason: "disabled", provider: settings.name };
    await noteEvent(this.#options, { event: "login_refused", userId: account.id, address, detail });
    throw signInFailure("account disabled");
  }

  /** A code that the client exchanges with the verifier of `challenge`. */
  issueCode(confirmed: Confirmed, purpose: CodePurpose, challenge: string): Promise<string> {
    const { signIn, ...identity } = confirmed.identity;
    const data = { ...confirmed, identity: { ...identity, signIn: signIn?.toString("base64") ?? null } };
    return this.#options.codes.issue(data, purpose, challenge);
  }

  /** The identity of a code. Returns null for a code that is unknown, expired or used, and for another verifier. */
  async takeCode(code: string, purpose: CodePurpose, verifier: string): Promise<Confirmed | null> {
    const data = await this.#options.codes.take<Stored>(code, purpose, verifier);
    if (data === null) return null;
    const { identity, ...confirmed } = data;
    const signIn = identity.signIn === null ? null : Buffer.from(identity.signIn, "base64");
    return { ...confirmed, identity: { ...identity, signIn } };
  }

  /** Returns and deletes the data of the user's last sign-in that a sign-out at the issuer needs. Null if there is none. */
  async takeSignIn(userId: string, issuer: string): Promise<string | null> {
    const { identities, box } = this.#options;
    const found = await identities.takeSignIn(userId, issuer);
    return found && box.open(found.signIn, ownerOf(issuer, found.subject));
  }

  async #register(
    identity: SealedIdentity,
    { name: provider, signUp }: Provider["settings"],
    address: string,
  ): Promise<Account> {
    if (!signUp || this.#options.isClosed) throw signInFailure("sign-up off");
    if (identity.name === null || identity.email === null) throw signInFailure("no e-mail");
    const outcome = await this.#options.identities.register(identity, provider, address).catch(refuseRaised);
    if (outcome === "email taken") throw signInFailure("e-mail taken");
    if (outcome === "malformed") throw signInFailure("no e-mail", "the name or the e-mail is malformed");
    // Registered, or linked by another first sign-in at the same time.
    const account = await this.#options.identities.use(identity, provider);
    if (account === null) throw signInFailure("expired", "the account was deleted at the same time");
    return account;
  }
}

const ownerOf = (issuer: string, subject: string) => `${issuer}\0${subject}`;
