import { ACCOUNT_PATH, SIGN_IN_PATH } from "../../rest-gateway/auth/pages/paths.ts";

export const MAIL_SIGN_IN_PATH = `${SIGN_IN_PATH}/e-mail`;
/** Where a user enters the code of an e-mail. */
export const MAIL_CODE_PATH = `${MAIL_SIGN_IN_PATH}/code`;
export const PASSKEY_SIGN_IN_PATH = `${SIGN_IN_PATH}/passkey`;
export const SIGN_UP_PATH = "/auth/sign-up";
export const FORGOT_PATH = "/auth/forgot-password";
export const CONFIRM_PATH = "/auth/confirm-e-mail";
export const SIGN_OUT_PATH = "/auth/sign-out";
export const PASSWORD_PATH = `${ACCOUNT_PATH}/password`;
export const EMAIL_PATH = `${ACCOUNT_PATH}/e-mail`;
/** Sends an e-mail to confirm the address. */
export const ACCOUNT_CONFIRM_PATH = `${EMAIL_PATH}/confirm`;
export const FACTOR_PATH = `${ACCOUNT_PATH}/second-factor`;
/** Removes an authenticator app. */
export const REMOVED_APP_PATH = `${FACTOR_PATH}/removed`;
/** Enables the factor with its first code. */
export const FACTOR_CODE_PATH = `${FACTOR_PATH}/code`;
export const BACKUP_CODES_PATH = `${ACCOUNT_PATH}/backup-codes`;
/** Begins to add a passkey. */
export const PASSKEYS_PATH = `${ACCOUNT_PATH}/passkeys`;
/** Adds the passkey that the browser has created. */
export const CREATED_PASSKEY_PATH = `${PASSKEYS_PATH}/created`;
export const PASSKEY_NAME_PATH = `${PASSKEYS_PATH}/name`;
export const REMOVED_PASSKEY_PATH = `${PASSKEYS_PATH}/removed`;
/** Ends a session, or all others. */
export const SESSIONS_PATH = `${ACCOUNT_PATH}/sessions`;
export const KEYS_PATH = `${ACCOUNT_PATH}/keys`;
/** Revokes a key. */
export const REVOKED_PATH = `${KEYS_PATH}/revoked`;
/** Begins and completes a link to an identity at a provider. */
export const LINK_IDENTITY_PATH = `${ACCOUNT_PATH}/identities`;
/** Ends a link. */
export const UNLINK_PATH = `${LINK_IDENTITY_PATH}/unlinked`;
