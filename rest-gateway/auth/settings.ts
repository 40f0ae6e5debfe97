import type { Config } from "../../config/config.ts";
import type { FederatedSettings } from "./federated.ts";
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
    | "loginAttemptsPerAddress"
    | "loginWindow"
    | "registrationsPerAddress"
    | "auditRetention"
    | "emailReservation"
    | "emailConfirm"
    | "usersEmail"
    | "sessionMaxAge"
    | "jwtRefreshGrace"
    | "baseUrl"
    | "corsOrigins"
    | "authReturnOrigins"
    | "mfaIssuer"
    | "mfaAttempts"
    | "recentSignIn"
    | "apiKeysMax"
    | "sessionsMax"
    | "userMetadataBytes"
    | "jwtAud"
    | "mfaAal1"
    | "passkeyDomain"
    | "passwordRules"
    | "bodyLimit"
    | "jsonMaxDepth"
  >;
