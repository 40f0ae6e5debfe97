import { z } from "zod";
import type { ClaimPath } from "./claim-path.ts";
import { jsonFile, remoteUrl, requiredText } from "./json-file.ts";
import { roleClaim } from "./setting-types.ts";

/** Another service whose access tokens are accepted. */
export type TrustedIssuer = {
  /** The claim `iss` of its tokens. */
  readonly issuer: string;
  /** Where its keys are; null to discover the URL at `<issuer>/.well-known/openid-configuration`. */
  readonly jwksUrl: string | null;
  /** The claim `aud` that its tokens must contain. */
  readonly audience: string;
  /** The claim that holds the Postgres role. */
  readonly roleClaim: ClaimPath;
  /** The roles that its tokens may have; null for the default. */
  readonly roles: readonly string[] | null;
};

const ROLE_CLAIM: ClaimPath = ["role"];

const TrustedIssuerEntry = z
  .strictObject(
    {
      issuer: remoteUrl,
      jwksUrl: remoteUrl.optional(),
      audience: requiredText,
      roleClaim: requiredText.pipe(roleClaim).optional(),
      roles: z.array(requiredText, { error: "must be a list of roles" }).optional(),
    },
    { error: "must be an object" },
  )
  .transform(
    ({ jwksUrl = null, roleClaim = ROLE_CLAIM, roles = null, ...entry }): TrustedIssuer => ({
      ...entry,
      jwksUrl,
      roleClaim,
      roles,
    }),
  );

/** The file that JWT_ISSUERS names. */
export const issuersFile = jsonFile(
  z
    .array(TrustedIssuerEntry, { error: "must be a list of issuers" })
    .refine((issuers) => new Set(issuers.map(({ issuer }) => issuer)).size === issuers.length, {
      error: "names an issuer twice",
    })
    .readonly(),
);
