import { createHash } from "node:crypto";
import type jwt from "jsonwebtoken";
import { claimAt } from "../config/claim-path.ts";
import type { TrustedIssuer } from "../config/trusted-issuers.ts";
import type { Caller } from "../db/caller.ts";
import { isRoleName } from "./foreign-tokens.ts";
import type { Key } from "./keys.ts";
import type { RemoteValue } from "./remote-value.ts";
import {
  type CacheUse,
  CLOCK_TOLERANCE,
  claimsOf,
  failedClaim,
  headerOf,
  IssuerUnavailable,
  requireClaims,
  TokenError,
  VerifiedTokens,
  type Verifier,
} from "./verified-tokens.ts";

export type IssuerTokensOptions = {
  readonly issuer: TrustedIssuer;
  readonly keys: RemoteValue<readonly Key[]>;
  /** The role of tokens without the role claim. */
  readonly anonymousRole: string;
  /** Whether this service has accounts. Then the subject of another issuer's token is not the id of a user of this service. */
  readonly hasAccounts: boolean;
};

/** The roles that a token of another issuer may have if there are accounts and `roles` is not set. */
const DEFAULT_ROLES = ["authenticated"];
/** Header types of access tokens. Source: RFC 9068, 2.1; many issuers send JWT or none. */
const ACCESS_TYPES = new Set(["jwt", "at+jwt", "application/at+jwt"]);

/** Verifies the access tokens of one issuer. */
export class IssuerTokens {
  readonly #options: IssuerTokensOptions;
  readonly #verified = new VerifiedTokens<Promise<Caller>>((token) => this.#check(token));

  constructor(options: IssuerTokensOptions) {
    this.#options = options;
  }

  /** Throws, or rejects with, TokenError and IssuerUnavailable. */
  callerOf(token: string): Caller | Promise<Caller> {
    // A token in the cache needs no key, but becomes invalid with its key.
    this.#options.keys.refresh();
    return this.#verified.callerOf(token);
  }

  known(token: string): Caller | null {
    return this.#verified.known(token);
  }

  get cache(): CacheUse {
    return this.#verified.use;
  }

  /** Tokens are verified again, because the keys have changed. */
  forget(): void {
    this.#verified.clear();
  }

  async #check(token: string): Promise<Caller> {
    const { issuer } = this.#options;
    const claims = await this.#verifySignature(token);
    requireClaims(claims, { audience: issuer.audience, grace: CLOCK_TOLERANCE });
    if (typeof claims.exp !== "number") throw failedClaim("JWT has no expiry");
    if (isForOtherPurpose(claims)) throw failedClaim("JWT is not an access token");
    const subject = typeof claims.sub === "string" ? claims.sub : "";
    const id = createHash("sha256").update(`${issuer.issuer}\0${subject}`).digest("hex");
    const { hasAccounts } = this.#options;
    return {
      role: this.#roleOf(claims),
      claims: hasAccounts ? ofOtherService(claims) : claims,
      expiresAt: (claims.exp + CLOCK_TOLERANCE) * 1000,
      refused: null,
      credential: { kind: "token", id },
      ...(hasAccounts && { external: { issuer: issuer.issuer, subject, roles: this.#roles } }),
    };
  }

  /** The roles that its tokens may have; null for every role. */
  get #roles(): readonly string[] | null {
    const { issuer, hasAccounts } = this.#options;
    return issuer.roles ?? (hasAccounts ? DEFAULT_ROLES : null);
  }

  async #verifySignature(token: string): Promise<jwt.JwtPayload> {
    const header = headerOf(token);
    if (header === null || !ACCESS_TYPES.has((header.typ ?? "JWT").toLowerCase())) throw new TokenError("invalid");
    const { keys, issuer } = this.#options;
    const known = await keys.current().catch((cause) => {
      throw new IssuerUnavailable(issuer.issuer, { cause });
    });
    const claims = claimsOf(known, header, token) ?? claimsOf(await keys.newer(), header, token);
    if (claims?.iss === issuer.issuer) return claims;
    throw new TokenError("invalid", { part: "token", message: "JWT cryptographic operation failed" });
  }

  #roleOf(claims: jwt.JwtPayload): string {
    const { issuer, anonymousRole } = this.#options;
    const role = claimAt(claims, issuer.roleClaim);
    if (role === undefined) return anonymousRole;
    if (typeof role !== "string" || !isRoleName(role)) throw new TokenError("invalid");
    if (this.#roles?.includes(role) === false) throw failedClaim("JWT has a role that its issuer may not give");
    return role;
  }
}

/** Whether a token is for another purpose than access: a refresh, ID or logout token. Source: OpenID Connect Core, Keycloak. */
function isForOtherPurpose({ type, typ, nonce, at_hash, events }: jwt.JwtPayload): boolean {
  const kinds = ["refresh", "offline", "id", "logout", "challenge"];
  const isNamed = [type, typ].some((kind) => typeof kind === "string" && kinds.includes(kind.toLowerCase()));
  return isNamed || [nonce, at_hash, events].some((claim) => claim !== undefined);
}

/** Claims that have a meaning for tokens of this service: a user, the time of a sign-in, and what revokes a token. */
const OWN_CLAIMS = ["sub", "auth_time", "epoch", "sid", "permissions", "identity"];

/**
 * The claims of a caller who is no user of this service. The subject is in `identity`: as `sub` it would be the id of a user.
 *
 *   ofOtherService({ iss: "https://id.example", sub: "1" })
 *   // { iss: "https://id.example", identity: { issuer: "https://id.example", subject: "1" } }
 */
function ofOtherService(claims: jwt.JwtPayload): Readonly<Record<string, unknown>> {
  const others = Object.entries(claims).filter(([name]) => !OWN_CLAIMS.includes(name));
  return { ...Object.fromEntries(others), identity: { issuer: claims.iss, subject: claims.sub } };
}

/** Verifies the tokens of the trusted issuers, and all other tokens with the verifier `own`. */
export class TrustedIssuers implements Verifier {
  readonly #own: Verifier;
  /** By the claim `iss`. */
  readonly #issuers: ReadonlyMap<string, IssuerTokens>;
  readonly #acceptsKeys: boolean;

  /** `acceptsKeys`: whether tokens of the issuers may be sent as API keys. */
  constructor(own: Verifier, issuers: ReadonlyMap<string, IssuerTokens>, acceptsKeys: boolean) {
    this.#own = own;
    this.#issuers = issuers;
    this.#acceptsKeys = acceptsKeys;
  }

  verify(token: string): Caller | Promise<Caller> {
    // Most tokens are known ones, and reading the issuer takes longer than finding them.
    const issuer = this.#own.known(token) === null ? this.#of(token) : undefined;
    return issuer ? issuer.callerOf(token) : this.#own.verify(token);
  }

  verifyKey(token: string): Caller | Promise<Caller> {
    return this.#acceptsKeys ? this.verify(token) : this.#own.verifyKey(token);
  }

  known(token: string): Caller | null {
    return this.#own.known(token) ?? this.#of(token)?.known(token) ?? null;
  }

  isOwn(token: string): boolean {
    return this.#own.known(token) !== null;
  }

  get validity(): Verifier["validity"] {
    return this.#own.validity;
  }

  get cache(): CacheUse {
    const uses = [this.#own.cache, ...[...this.#issuers.values()].map(({ cache }) => cache)];
    const sumOf = (name: keyof CacheUse) => uses.reduce((sum, use) => sum + use[name], 0);
    return { requests: sumOf("requests"), hits: sumOf("hits"), evictions: sumOf("evictions") };
  }

  #of(token: string): IssuerTokens | undefined {
    return this.#issuers.get(issuerOf(token));
  }
}

/** The claim `iss` of a token that is not verified; "" without one. */
function issuerOf(token: string): string {
  try {
    const claims = JSON.parse(Buffer.from(token.split(".", 2)[1] ?? "", "base64url").toString());
    return typeof claims?.iss === "string" ? claims.iss : "";
  } catch {
    return "";
  }
}
