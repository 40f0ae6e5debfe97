import type { Config } from "../../config/config.ts";
import type { DatabaseLimits } from "../../db/limits.ts";
import type { HttpLimits } from "../../gate/limits.ts";
import type { FederatedSettings } from "./federated.ts";
import type { AuthLimits } from "./limits.ts";
import type { MailSettings } from "./mail/mails.ts";
import type { FactorSettings } from "./second-factor.ts";

/** The settings of authentication. */
export type AuthSettings = FactorSettings &
  FederatedSettings &
  MailSettings &
  Pick<
    Config,
    | "dbAnonRole"
    | "dbRequestCredentials"
    | "loginAttempts"
    | "auditRetention"
    | "emailConfirm"
    | "usersEmail"
    | "sessionMaxAge"
    | "jwtRefreshGrace"
    | "baseUrl"
    | "corsOrigins"
    | "authReturnOrigins"
    | "mfaIssuer"
    | "jwtAud"
    | "mfaAal1"
    | "passkeyDomain"
    | "passwordRules"
    | "bodyLimit"
  > &
  Pick<
    AuthLimits,
    | "loginAttemptsPerAddress"
    | "loginWindow"
    | "registrationsPerAddress"
    | "emailReservation"
    | "mfaAttempts"
    | "apiKeysMax"
    | "sessionsMax"
    | "userMetadataBytes"
  > &
  Pick<DatabaseLimits, "recentSignIn"> &
  Pick<HttpLimits, "jsonMaxDepth">;
