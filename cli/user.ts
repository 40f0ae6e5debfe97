import { createInterface } from "node:readline/promises";
import { type Readable, Writable } from "node:stream";
import type pg from "pg";
import type { Configured } from "../app/configured.ts";
import { COMMAND } from "../config/command.ts";
import type { Environment } from "../config/config.ts";
import type { Account } from "../identity/account.ts";
import type { AdminUsers } from "../rest-gateway/auth/admin-users.ts";
import { loginEmailFault, normalizedUsername, usernameFault } from "../rest-gateway/auth/login-names.ts";
import { hashPassword, PasswordRules } from "../rest-gateway/auth/passwords.ts";
import { adminUsersOf } from "./admin-users.ts";
import {
  CommandError,
  defineCommand,
  FLAG,
  inColumns,
  inTransaction,
  readService,
  TEXT,
  withOwner,
} from "./command.ts";
import { readDumpContext } from "./supabase-dump.ts";
import { importUsers } from "./user-import.ts";

const HELP = `\
Manages user accounts. The service may be running: changes take effect within a second.

  ${COMMAND} user create <name> <email>   create a user with an account
      --username <username>                        login in addition to the e-mail
      --role authenticated|admin                   default: authenticated
  ${COMMAND} user email <login> <email>   change the e-mail of the user, also for sign-in
  ${COMMAND} user password <login>        set a new password and end all sign-ins
  ${COMMAND} user disable <login>         disable the account and end all sign-ins
  ${COMMAND} user enable <login>          enable the account again
  ${COMMAND} user role <login> <role>     change the role: authenticated or admin
  ${COMMAND} user reset-factor <login>    remove all second factors and passkeys, and end all sign-ins
  ${COMMAND} user sign-out <login>        end all sign-ins; API keys remain valid
  ${COMMAND} user delete <login>          delete the user, with one of
      --with-data                                  delete the rows of all tables that refer to the user
      --hand-over-to <login>                       let these rows refer to this user instead
  ${COMMAND} user list [<text>]           list all accounts, or those whose name, username or e-mail contains a text
  ${COMMAND} user import <file>           import users with the hashes of their passwords (docs/existing-database.md); each
                                                   line of the file is a JSON object, or it is a dump of Supabase
      --dry-run                                    check every row, and change nothing
      --report <file>                              for refused rows and reasons; default: <file>.refused.ndjson
  ${COMMAND} user --help                  show this help

<login> is a username or an e-mail. On a terminal you are prompted for passwords; otherwise the first line of stdin is used.
The command uses the settings of the service: DATABASE_URL, or the embedded database while the service runs.
`;

const ROLES = ["authenticated", "admin"];

/** Commands have no IP address. */
const NO_ADDRESS = "";

type Options = {
  readonly client: pg.Client;
  readonly username: string | null;
  readonly role: string;
  readonly isDryRun: boolean;
  readonly report: string | undefined;
  /** The login of the user who gets the data of a deleted one; null if the data is deleted too. */
  readonly successor: string | null;
  readonly passwordRules: PasswordRules;
  readonly input: () => Input;
  readonly configured: Configured;
};
type Action = {
  /** The arguments after the name of the action. */
  readonly arguments: readonly string[];
  /** A further argument, which may be left out. */
  readonly optional?: string;
  /** Whether the action begins and commits its transactions itself. */
  readonly commits?: true;
  run(accounts: AdminUsers, args: readonly string[], options: Options): Promise<string>;
};

/** An action on one account, which its first argument names. */
const onAccount =
  (
    work: (accounts: AdminUsers, account: Account, more: readonly string[], options: Options) => Promise<string>,
  ): Action["run"] =>
  async (accounts, [login, ...more], options) =>
    work(accounts, await accountOf(accounts, login!), more, options);

async function accountOf(accounts: AdminUsers, login: string): Promise<Account> {
  const account = await accounts.byLogin(login);
  if (account === null)
    throw new CommandError(1, `no account has the login ${login}; list accounts with ${COMMAND} user list`);
  return account;
}

const ACTIONS: Readonly<Record<string, Action>> = {
  create: { arguments: ["name", "email"], run: create },
  email: {
    arguments: ["login", "email"],
    run: onAccount(async (accounts, { id, username }, [email]) => {
      refuseFault("email", loginEmailFault(email!));
      await accounts.change(id, { email: email! }, null, NO_ADDRESS);
      return `user ${username} has the e-mail ${email}\n`;
    }),
  },
  password: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }, _more, options) => {
      await accounts.change(id, {}, await newPasswordHash(options), NO_ADDRESS);
      return `password of user ${username} changed, all sign-ins ended\n`;
    }),
  },
  disable: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) => {
      await accounts.change(id, { isBanned: true }, null, NO_ADDRESS);
      return `user ${username} is disabled\n`;
    }),
  },
  enable: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) => {
      await accounts.change(id, { isBanned: false }, null, NO_ADDRESS);
      return `user ${username} is enabled\n`;
    }),
  },
  role: {
    arguments: ["login", "role"],
    run: onAccount(async (accounts, { id, username }, [role]) => {
      await accounts.change(id, { role: role! }, null, NO_ADDRESS);
      return `user ${username} has the role ${role}\n`;
    }),
  },
  "reset-factor": {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) =>
      (await accounts.resetFactor(id, null, NO_ADDRESS))
        ? `second factor of user ${username} removed\n`
        : `user ${username} has no second factor\n`,
    ),
  },
  "sign-out": {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) => {
      await accounts.endSignIns(id, NO_ADDRESS);
      return `user ${username} is signed out everywhere\n`;
    }),
  },
  delete: { arguments: ["login"], run: onAccount(deleteUser) },
  import: {
    arguments: ["file"],
    commits: true,
    run: (_accounts, [file], { client, isDryRun, report = `${file}.refused.ndjson`, configured }) =>
      importUsers(client, file!, {
        isDryRun,
        report,
        onProgress: (line) => process.stderr.write(`${line}\n`),
        dumpContext: () => readDumpContext(client, configured),
      }),
  },
  list: {
    arguments: [],
    optional: "text",
    run: async (accounts, [text = null]) => {
      const { users } = await accounts.search(text, 0, null);
      const rows = users.map(({ id, username, email, role, disabled, mfaEnabled }) => ({
        ...{ id: String(id), username: username ?? "", email: email ?? "", role },
        ...{ state: disabled ? "disabled" : "enabled", factor: mfaEnabled ? "yes" : "no" },
      }));
      return inColumns(["id", "username", "email", "role", "state", "factor"], rows);
    },
  },
};

export const user = defineCommand({
  name: "user",
  help: HELP,
  options: {
    ...{ username: TEXT, role: TEXT, report: TEXT, "hand-over-to": TEXT },
    ...{ "dry-run": FLAG, "with-data": FLAG },
  },
  maxArguments: Number.POSITIVE_INFINITY,
  async run({ values, args, refuse }, environment?: Environment, input: () => Input = () => process.stdin) {
    const [name = "", ...given] = args;
    const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name]! : null;
    if (action === null) throw refuse(name === "" ? "an action is required" : `unknown action ${name}`);
    const { arguments: needed, optional } = action;
    if (given.length < needed.length || given.length > needed.length + (optional ? 1 : 0)) {
      const list = needed.map((argument) => `<${argument}>`).join(" ");
      throw refuse(list === "" ? `${name} takes at most one argument` : `${name} requires ${list}`);
    }
    const { username = null, role = "authenticated", "dry-run": isDryRun, report } = values;
    const { "with-data": isWithData, "hand-over-to": successor = null } = values;
    if (name === "delete" && isWithData === (successor !== null))
      throw refuse("delete requires either --with-data or --hand-over-to <login>");
    if (name !== "delete" && (isWithData || successor !== null))
      throw refuse("--with-data and --hand-over-to are allowed only with delete");
    if (name !== "create" && (values.username ?? values.role) !== undefined)
      throw refuse("--username and --role are allowed only with create");
    if (name !== "import" && (isDryRun || report !== undefined))
      throw refuse("--dry-run and --report are allowed only with import");
    const newRole = name === "role" ? given[1]! : role;
    if (!ROLES.includes(newRole)) throw refuse(`role must be ${ROLES.join(" or ")}`);
    const configured = await readService(environment);
    const passwordRules = new PasswordRules(configured.config);
    const options = { username, role, isDryRun, report, successor, passwordRules, input, configured };
    return withOwner(configured.config, (client) => act(action, given, { ...options, client }));
  },
});

async function act(action: Action, args: readonly string[], options: Options): Promise<string> {
  const { client } = options;
  const run = () => action.run(adminUsersOf(client), args, options);
  try {
    return await (action.commits ? run() : inTransaction(client, run));
  } catch (error) {
    const message = await constraintMessage(client, error as pg.DatabaseError);
    throw message === null ? error : new CommandError(1, message);
  }
}

/** The comment of a violated constraint or unique index; null for other errors. */
async function constraintMessage(client: pg.Client, { schema, table, constraint }: pg.DatabaseError) {
  if (!constraint) return null;
  await client.query("rollback");
  const { rows } = await client.query<{ message: string | null }>(
    "select auth_private.constraint_message($1, $2, $3) as message",
    [schema, table, constraint],
  );
  return rows[0]!.message;
}

async function create(accounts: AdminUsers, [name, email]: readonly string[], options: Options): Promise<string> {
  const { role } = options;
  const username = options.username === null ? null : normalizedUsername(options.username);
  refuseFault("email", loginEmailFault(email!));
  if (username !== null) refuseFault("username", usernameFault(username));
  const passwordHash = await newPasswordHash(options);
  const account = { fields: { name: name!, email: email! }, username, passwordHash, changes: { role } };
  const { id } = await accounts.create(account, NO_ADDRESS);
  return `created user ${id} with the login ${username ?? email}\n`;
}

async function deleteUser(
  accounts: AdminUsers,
  { id, username }: Account,
  _more: readonly string[],
  { successor: login }: Options,
): Promise<string> {
  const successor = login === null ? null : await accountOf(accounts, login);
  if (successor?.id === id) throw new CommandError(1, "the user who gets the data must be another one");
  await accounts.remove(id, successor?.id ?? null, NO_ADDRESS);
  return `user ${username} is deleted, ${successor === null ? "with" : `and user ${successor.username} has`} their data\n`;
}

function refuseFault(field: string, fault: string | null): void {
  if (fault !== null) throw new CommandError(1, `${field} ${fault}`);
}

async function newPasswordHash({ input, passwordRules }: Options): Promise<string> {
  const password = await readNewPassword(input());
  const faults = passwordRules.faults(password);
  if (faults.length > 0) throw new CommandError(1, faults.join("; "));
  return hashPassword(password);
}

/** Discards the echo of the terminal. */
const SILENT = new Writable({ write: (_chunk, _encoding, done) => done() });

/** Standard input of a command. */
type Input = Readable & { readonly isTTY?: boolean };

/** Prompts twice for a new password on a terminal, without echo; otherwise reads the first line. Throws CommandError. */
async function readNewPassword(input: Input): Promise<string> {
  if (!input.isTTY) return readLine(input);
  const password = await ask(input, "New password: ");
  if (password !== (await ask(input, "Repeat the password: ")))
    throw new CommandError(1, "the passwords do not match; nothing was changed");
  return password;
}

async function ask(input: Input, question: string): Promise<string> {
  const lines = createInterface({ input, output: SILENT, terminal: true });
  process.stderr.write(question);
  try {
    return await new Promise<string>((resolve, reject) => {
      const cancel = () => reject(new CommandError(1, "cancelled; nothing was changed"));
      lines.once("SIGINT", cancel).once("close", cancel);
      lines.question("").then(resolve, reject);
    });
  } finally {
    lines.close();
    process.stderr.write("\n");
  }
}

async function readLine(input: Input): Promise<string> {
  let text = "";
  for await (const chunk of input.setEncoding("utf8")) text += chunk;
  return text.split(/\r?\n/, 1)[0]!;
}
