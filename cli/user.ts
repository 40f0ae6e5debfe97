import { parseArgs } from "node:util";
import type pg from "pg";
import type { Environment } from "../config/config.ts";
import type { Account } from "../identity/account.ts";
import { hashPassword, passwordFaults } from "../rest-gateway/auth/passwords.ts";
import { OperatorAccounts } from "./account-repository.ts";
import { inColumns } from "./columns.ts";
import { Refusal, readSettings, runCommand, withOwner } from "./command.ts";
import { type Input, readNewPassword } from "./password-prompt.ts";

const HELP = `\
Looks after the accounts of users, also while the service runs: what is taken away is gone within a second.

  npm run -s user -- create <name> <email>     a new user who can sign in
      --username <username>                    a login besides the e-mail
      --role authenticated|admin               authenticated, unless it is said
  npm run -s user -- password <login>          sets another password
  npm run -s user -- disable <login>           ends all that is signed in, and lets nobody in
  npm run -s user -- enable <login>            lets him in again
  npm run -s user -- role <login> <role>       authenticated or admin
  npm run -s user -- reset-factor <login>      removes the second factor, for who has lost it
  npm run -s user -- list                      all accounts
  npm run -s user -- --help                    this text

<login> is a username or an e-mail. Passwords are asked for on a terminal; else the first line of stdin is read.
The settings are those of npm start: DATABASE_URL, or the embedded database while npm start runs.
`;

const ROLES = ["authenticated", "admin"];

type Options = { readonly username: string | null; readonly role: string; readonly input: () => Input };
type Action = {
  /** What comes behind the name of the action. */
  readonly arguments: readonly string[];
  run(accounts: OperatorAccounts, args: readonly string[], options: Options): Promise<string>;
};

/** `(ada) => …` for an action that is about one account. */
const onAccount =
  (
    work: (accounts: OperatorAccounts, account: Account, more: readonly string[], options: Options) => Promise<string>,
  ): Action["run"] =>
  async (accounts, [login, ...more], options) => {
    const account = await accounts.find(login!);
    if (account === null) throw new Refusal(1, `nobody signs in as ${login}; npm run -s user -- list shows who does`);
    return work(accounts, account, more, options);
  };

const ACTIONS: Readonly<Record<string, Action>> = {
  create: { arguments: ["name", "email"], run: create },
  password: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }, _more, { input }) => {
      await accounts.setPassword(id, await newPasswordHash(input()));
      return `${username} has another password, and is signed in nowhere\n`;
    }),
  },
  disable: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) => {
      await accounts.disable(id);
      return `${username} is disabled\n`;
    }),
  },
  enable: {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) => {
      await accounts.enable(id);
      return `${username} is enabled\n`;
    }),
  },
  role: {
    arguments: ["login", "role"],
    run: onAccount(async (accounts, { id, username }, [role]) => {
      await accounts.setRole(id, role!);
      return `${username} has the role ${role}\n`;
    }),
  },
  "reset-factor": {
    arguments: ["login"],
    run: onAccount(async (accounts, { id, username }) =>
      (await accounts.resetFactor(id)) ? `${username} has no second factor any more\n` : `${username} has none\n`,
    ),
  },
  list: {
    arguments: [],
    run: async (accounts) => inColumns(["id", "username", "email", "role", "state", "factor"], await accounts.list()),
  },
};

/** What is printed for these arguments; throws Refusal. */
export async function user(
  args: string[],
  environment?: Environment,
  input = (): Input => process.stdin,
): Promise<string> {
  const { values, positionals } = readArguments(args);
  if (values.help) return HELP;
  const [name = "", ...given] = positionals;
  const action = Object.hasOwn(ACTIONS, name) ? ACTIONS[name]! : null;
  if (action === null) throw misused(name === "" ? "say what to do" : `there is no action ${name}`);
  const needed = action.arguments.map((argument) => `<${argument}>`).join(" ");
  if (given.length !== action.arguments.length)
    throw misused(needed === "" ? `${name} takes nothing` : `${name} takes ${needed}`);
  const { username = null, role = "authenticated" } = values;
  if (name !== "create" && (values.username ?? values.role) !== undefined)
    throw misused("--username and --role go with create");
  const wanted = name === "role" ? given[1]! : role;
  if (!ROLES.includes(wanted)) throw misused(`a role is ${ROLES.join(" or ")}`);
  return withOwner(readSettings(environment), (client) => act(client, action, given, { username, role, input }));
}

function readArguments(args: string[]) {
  const options = {
    help: { type: "boolean", short: "h" },
    username: { type: "string" },
    role: { type: "string" },
  } as const;
  try {
    return parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw misused((error as Error).message);
  }
}

const misused = (message: string) => new Refusal(2, `${message}; npm run -s user -- --help tells how`);

/** Rules of the database, in its words for clients: what an operator got wrong. */
const RULES: Readonly<Record<string, string>> = {
  users_email_key: "there is a user with this e-mail",
  users_email_format: "email must be a valid address",
  users_name_length: "name must have 1 to 200 characters",
  accounts_username_key: "username already taken",
  accounts_username_format: "username must have 1 to 100 characters, without spaces, colons and @",
};

async function act(client: pg.Client, action: Action, args: readonly string[], options: Options): Promise<string> {
  try {
    await client.query("begin");
    const told = await action.run(new OperatorAccounts(client), args, options);
    await client.query("commit");
    return told;
  } catch (error) {
    const { constraint = "", code } = error as pg.DatabaseError;
    if (code === "3F000" || code === "42883" || code === "42P01")
      throw new Refusal(1, "this database has no accounts: start the service on it once, with MIGRATE=on");
    throw Object.hasOwn(RULES, constraint) ? new Refusal(1, RULES[constraint]!) : error;
  }
}

async function create(accounts: OperatorAccounts, [name, email]: readonly string[], options: Options): Promise<string> {
  const { username, role, input } = options;
  const passwordHash = await newPasswordHash(input());
  const id = await accounts.create({ name: name!, email: email!, username, role, passwordHash });
  return `user ${id} signs in as ${username ?? email}\n`;
}

async function newPasswordHash(input: Input): Promise<string> {
  const password = await readNewPassword(input);
  const faults = passwordFaults(password);
  if (faults.length > 0) throw new Refusal(1, faults.join("; "));
  return hashPassword(password);
}

if (import.meta.main) await runCommand(user);
