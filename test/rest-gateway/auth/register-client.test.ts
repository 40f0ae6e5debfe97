import { beforeAll, expect, test } from "vitest";
import { provisionLogins } from "../../../db/cluster/provision.ts";
import { Transactions } from "../../../db/transaction/transaction.ts";
import { Tokens } from "../../../identity/tokens.ts";
import { parseCredentials } from "../../../rest-gateway/auth/bodies.ts";
import { AuthFunctions } from "../../../rest-gateway/auth/functions.ts";
import { hashPassword, PasswordCheck, PasswordHashing, PasswordRules } from "../../../rest-gateway/auth/passwords.ts";
import { type NewUser, Registration } from "../../../rest-gateway/auth/registration.ts";
import { AuthRepository } from "../../../rest-gateway/auth/repository.ts";
import { SignIn } from "../../../rest-gateway/auth/sign-in.ts";
import { Throttle } from "../../../rest-gateway/auth/throttle.ts";
import { createTestDatabase, type TestDatabase } from "../../support/database.ts";
import { admissionTo } from "../../support/transactions.ts";

const PASSWORD = "Correct-Horse-8!";
const RULES = new PasswordRules({ passwordRules: { length: 12, classes: ["upper", "lower", "digit", "special"] } });
const LENGTH = "password must have at least 12 characters";
const UPPER = "password must have an upper case letter";
const LOWER = "password must have a lower case letter";
const DIGIT = "password must have a digit";
const SPECIAL = "password must have a special character, such as ! or -";

const tokens = new Tokens({
  secret: "x".repeat(32),
  privateKey: "",
  audience: "",
  anonymousRole: "anon",
  accessSeconds: 3600,
});

let database: TestDatabase;
/** The connection of the service: its login role may only execute functions of auth_api. */
let auth: Transactions;
beforeAll(async () => {
  database = await createTestDatabase();
  const logins = await provisionLogins(database.owner, database.url, "a secret for the tests of signing up");
  const pool = { connectionString: logins.auth, max: 2 };
  const admission = admissionTo(pool.max);
  auth = new Transactions({
    ...{ pool, admission },
    statementTimeoutOf: () => 10_000,
    maxPrepared: 100,
    onConnectionError: () => {},
  });
  return async () => {
    await auth.close();
    for (const role of Object.keys(logins).map((kind) => `${database.name}_${kind}`))
      await database.owner.query(`drop owned by ${role}; drop role ${role}`);
    await database.drop();
  };
});

const LIMITS = {
  loginAttempts: 1000,
  loginAttemptsPerAddress: 1000,
  mfaAttempts: 5,
  registrationsPerAddress: 1000,
  loginWindow: 900,
};

function createParts() {
  const repository = new AuthRepository(new AuthFunctions(auth, Date.now));
  const hashing = new PasswordHashing();
  const throttle = new Throttle(repository, LIMITS);
  return {
    repository,
    hashing,
    throttle,
    passwords: new PasswordCheck({ rules: RULES, repository, hashing, throttle }),
  };
}

/** Signs in for tokens, as at POST /auth/login. */
async function signIn(body: object) {
  const signIn = new SignIn({
    ...createParts(),
    confirms: false,
    tokens,
    secondFactor: { tryCode: async () => "wrong" },
    passkeys: { verify: async () => null },
  });
  return tokens.issuePair(await signIn.account(parseCredentials(body), "127.0.0.1"));
}

const register = (user: NewUser, password: string) =>
  new Registration({ ...createParts(), isClosed: false }).register(user, password, { address: "127.0.0.1" });

const sql = async (text: string, ...values: unknown[]) => (await database.owner.query(text, values)).rows;

let count = 0;
/** A user who is not registered yet. */
const newUser = (given: Given = {}): NewUser => {
  count++;
  const { username = `dora${count}`, ...fields } = given;
  const common = { isByOperator: false, languages: [] };
  return { fields: { name: "Dora", email: `dora${count}@test.example`, age: 20, ...fields }, username, ...common };
};
type Given = Partial<NewUser["fields"]> & Partial<Pick<NewUser, "username">>;

test("a registered user signs in with username or e-mail in any case, and the password", async () => {
  const user = newUser();
  const id = await register(user, PASSWORD);
  expect(await sql("select name, email, age from users where id = $1", id)).toEqual([
    { name: "Dora", email: user.fields.email, age: 20 },
  ]);
  for (const username of [user.username!, user.username!.toUpperCase(), user.fields.email]) {
    const { accessToken } = await signIn({ username, password: PASSWORD });
    expect(tokens.verify(accessToken)).toMatchObject({ role: "authenticated", claims: { sub: id, name: "Dora" } });
  }
  await expect(signIn({ username: user.fields.email, password: `${PASSWORD}!` })).rejects.toMatchObject({
    reason: "wrong password",
  });
});

test("a user without a username signs in with the e-mail, whatever others change it to", async () => {
  const user = newUser({ username: null, age: null });
  const id = await register(user, PASSWORD);
  await sql("update users set email = 'moved@test.example' where id = $1", id);
  await signIn({ username: user.fields.email, password: PASSWORD });
  await expect(signIn({ username: "moved@test.example", password: PASSWORD })).rejects.toMatchObject({
    reason: "wrong password",
  });
});

test("a password in another Unicode form is the same password", async () => {
  const user = newUser();
  await register(user, "Zurück-zu-7ä!".normalize("NFD"));
  await signIn({ username: user.fields.email, password: "Zurück-zu-7ä!".normalize("NFC") });
});

test.each<[string, Given, object]>([
  ["an e-mail that is registered", { email: "ADA@example.com" }, { code: "23505", constraint: "users_email_key" }],
  ["a username that is taken", { username: "Ada" }, { code: "23505", constraint: "accounts_username_key" }],
  [
    "the e-mail of another user",
    { username: "ada@example.com" },
    { code: "23514", constraint: "accounts_username_format" },
  ],
  ["a username with an @", { username: "a@test.example" }, { code: "23514", constraint: "accounts_username_format" }],
  ["a malformed e-mail", { email: "dora" }, { code: "23514", constraint: "users_email_format" }],
  ["an age that is not an integer", { age: 1.5 }, { code: "22P02" }],
])("with %s the database error is passed on, and no user is created", async (_what, given, error) => {
  const before = await sql("select count(*) from users");
  await expect(register(newUser(given), PASSWORD)).rejects.toMatchObject(error);
  expect(await sql("select count(*) from users")).toEqual(before);
});

test("one of several registrations at once with the same username succeeds", async () => {
  const { username } = newUser();
  const attempts = Array.from({ length: 6 }, () => register(newUser({ username }), PASSWORD));
  const outcomes = await Promise.allSettled(attempts);
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  for (const outcome of outcomes)
    if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ code: "23505" });
});

test("a password is stored as argon2id with a random salt and the costs that logins are verified with", async () => {
  const [one, other] = await Promise.all([hashPassword(PASSWORD), hashPassword(PASSWORD)]);
  expect(one).toMatch(/^\$argon2id\$v=19\$m=12288,t=3,p=1\$/);
  expect(one).not.toBe(other);
});

test.each<[string, string[]]>([
  ["Correct-Horse-7!", []],
  ["Aa1!aaaaaaaa", []],
  ["Äß1€ßßßßßßßß", []],
  ["Aa1!aaaaaaa", [LENGTH]],
  ["Aa1!aaaaaaa😀", []],
  [`Aa1!${"é".repeat(7)}`.normalize("NFD"), [LENGTH]],
  [`Aa1!${"x".repeat(124)}`, []],
  [`Aa1!${"x".repeat(125)}`, ["password must have at most 128 characters"]],
  ["correct-horse-7!", [UPPER]],
  ["CORRECT-HORSE-7!", [LOWER]],
  ["Correct-Horse-!!", [DIGIT]],
  ["CorrectHorse77", [SPECIAL]],
  ["Correct Horse 77", [SPECIAL]],
  ["", [LENGTH, UPPER, LOWER, DIGIT, SPECIAL]],
])("the new password %j breaks the rules %j", (password, faults) => expect(RULES.faults(password)).toEqual(faults));
