import { isOfOneScript } from "./look-alikes.ts";

// The rules for a new username. The database compares usernames by their skeleton (look-alikes.ts).

/** Characters of a username. */
export const MAX_USERNAME = 100;
/** The ASCII characters that the constraint `accounts_username_format` accepts; it also excludes other blanks. */
export const USERNAME_PATTERN = "^[^@:\\u0000-\\u0020\\u007f]+$";

/** Where fonts and keyboards have several forms of a character, there is one to sign in with: `ａｄａ` → `ada`. */
export const normalizedUsername = (username: string): string => username.normalize("NFKC");

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

/** The rule for an e-mail to sign in with; null if it is kept. Other rules are those of every e-mail. */
export const loginEmailFault = (email: string): string | null =>
  email.split(/[@.]/).every(isOfOneScript)
    ? null
    : "must have letters of one script only between dots and @, because it is used to sign in";
