import { domainToUnicode } from "node:url";

// The rules for a new username. The database compares usernames in NFKC and lower case.

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

const ASCII = /^\p{ASCII}*$/u;

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
