export const MAX_USERNAME = 100;

/** What the constraint `accounts_username_format` lets through, as far as ASCII goes: it knows other spaces too. */
export const USERNAME = "^[^@:\\u0000-\\u0020\\u007f]+$";

const PATTERN = new RegExp(USERNAME, "u");

/** In the words of the constraint, so that a form hears of it beside all other faults; null for one that may stand. */
export function usernameFault(username: string): string | null {
  if (PATTERN.test(username) && [...username].length <= MAX_USERNAME) return null;
  return `must have 1 to ${MAX_USERNAME} characters, without spaces, colons and @; without a username the e-mail is used`;
}
