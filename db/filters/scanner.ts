import { type Problem, problem } from "../../problems/problem.ts";

const SPACE = 0x20;
const TAB = 0x09;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Reads a text from left to right and keeps the position, so that errors can name it. */
export class Scanner {
  readonly text: string;
  at = 0;
  /** Steps of the JSON paths that were read. */
  steps = 0;
  /** How error messages name the text. */
  readonly #parameter: string;

  constructor(parameter: string, text: string) {
    this.#parameter = parameter;
    this.text = text;
  }

  get isAtEnd(): boolean {
    return this.at >= this.text.length;
  }

  /** Whether `token` is next. */
  sees(token: string): boolean {
    return this.text.startsWith(token, this.at);
  }

  /** Skips `token` if it is next. */
  takes(token: string): boolean {
    if (!this.sees(token)) return false;
    this.at += token.length;
    return true;
  }

  expect(token: string, expected?: string): void {
    if (!this.takes(token)) throw this.error(expected ?? JSON.stringify(token));
  }

  expectEnd(expected = "the end"): void {
    if (!this.isAtEnd) throw this.error(expected);
  }

  /** The next characters, as long as their codes pass the test. */
  takeWhile(isPart: (code: number) => boolean): string {
    const start = this.at;
    while (this.at < this.text.length && isPart(this.text.charCodeAt(this.at))) this.at++;
    return this.text.slice(start, this.at);
  }

  /** The match of a sticky pattern at this position. */
  takeMatch(pattern: RegExp): string | null {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? null;
    if (found !== null) this.at += found.length;
    return found;
  }

  takeRest(): string {
    const rest = this.text.slice(this.at);
    this.at = this.text.length;
    return rest;
  }

  skipSpace(): void {
    while (isSpace(this.text.charCodeAt(this.at))) this.at++;
  }

  /** `"a \"b\" \\"` → `a "b" \`. Null, without moving, when there is no quote or no closing quote. */
  takeQuoted(): string | null {
    const { text } = this;
    if (text.charCodeAt(this.at) !== QUOTE) return null;
    const end = text.indexOf('"', this.at + 1);
    const plain = text.slice(this.at + 1, end);
    if (end !== -1 && !plain.includes("\\")) {
      this.at = end + 1;
      return plain;
    }
    let value = "";
    let start = this.at + 1;
    for (let i = start; i < text.length; i++) {
      const code = text.charCodeAt(i);
      if (code === QUOTE) {
        this.at = i + 1;
        return value + text.slice(start, i);
      }
      if (code === BACKSLASH) {
        value += text.slice(start, i);
        start = ++i;
      }
    }
    return null;
  }

  /** The error for unexpected text at this position. */
  error(expected: string): Problem {
    return unreadable(this.#parameter, this.text, this.at, expected);
  }
}

const isSpace = (code: number) => code === SPACE || code === TAB;

/** `at` is the position in `text`, from 0. */
export const unreadable = (parameter: string, text: string, at: number, expected: string) =>
  problem("unreadable query", {
    parameter,
    text,
    details: `at character ${at + 1}: expected ${expected}, found ${at < text.length ? JSON.stringify(text[at]) : "the end"}`,
  });
