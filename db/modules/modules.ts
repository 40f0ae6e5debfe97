import type { ModuleName } from "../../config/modules.ts";

/** A part of the service in the database. Its folder has `tables.sql`, the tables as they are, and `migrations/`, which change older ones. */
export type Module = {
  readonly name: "caller" | ModuleName;
  /** The schemas that it creates. */
  readonly schemas: readonly string[];
  /** The functions that it adds to the schema `auth`, which belongs to `caller`. */
  readonly callerFunctions: readonly string[];
  /** Its login, which the start of the service makes: `auth` for `<database>_auth`. Those of `caller` serve every module. */
  readonly logins: readonly ("data" | "admin" | "service" | "auth" | "tasks" | "changes")[];
  /** Files of functions, triggers, policies and grants, in this order. When one has changed, all are executed again. */
  readonly code: readonly string[];
};

/** The modules in the order in which they are installed. */
export const MODULES: readonly Module[] = [
  {
    name: "caller",
    schemas: ["auth"],
    callerFunctions: [],
    logins: ["data", "admin", "service"],
    code: ["roles.sql", "functions.sql"],
  },
  {
    name: "auth",
    schemas: ["auth_private", "auth_api"],
    callerFunctions: [
      "is_email",
      "has_account",
      "add_account",
      "try_add_account",
      "act_as",
      "use_hook",
      "use_users",
      "remove_user",
      "has_recent_sign_in",
      "require_recent_sign_in",
    ],
    logins: ["auth"],
    code: [
      "hooks.sql",
      "accounts.sql",
      "tokens.sql",
      "sessions.sql",
      "keys.sql",
      "security_events.sql",
      "recent_sign_in.sql",
      "login_emails.sql",
      "federated.sql",
      "attempts.sql",
      "mails.sql",
      "one_time_tokens.sql",
      "added_users.sql",
      "factors.sql",
      "passkeys.sql",
      "notices.sql",
      "users.sql",
      "admin.sql",
      "imports.sql",
      "other_applications.sql",
      "act_as.sql",
      "owner.sql",
    ],
  },
  {
    name: "tasks",
    schemas: ["tasks", "graphile_worker"],
    callerFunctions: [],
    logins: ["tasks"],
    code: ["limits.sql", "functions.sql", "workers.sql", "access.sql"],
  },
  {
    name: "feed",
    schemas: ["changes"],
    callerFunctions: [],
    logins: ["changes"],
    code: ["announcements.sql", "publication.sql", "protected-writes.sql"],
  },
  { name: "channels", schemas: ["realtime"], callerFunctions: [], logins: [], code: ["functions.sql"] },
];

/**
 * The modules beside a schema `auth` of something else, which has the functions of the caller: `caller` has only the roles, and the module
 * `auth` cannot be installed.
 */
export const MODULES_WITHOUT_CALLER: readonly Module[] = MODULES.map((module) => ({
  ...module,
  ...(module.name === "caller" && { schemas: [], code: ["roles.sql"] }),
  callerFunctions: [],
}));
