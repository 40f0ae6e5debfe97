/** How messages, pages and documents write the command of this package. */
export const COMMAND = "npx content-service";

export type Command = {
  readonly about: string;
  /** Returns the output of the command. Throws CommandError. */
  readonly load: () => Promise<(args: string[]) => Promise<string>>;
  /** Variables of the environment, in addition to those of every command. */
  readonly environment?: Readonly<Record<string, string>>;
};

/** Name → command. */
export type Commands = Readonly<Record<string, Command>>;
