import { parseArgs } from "node:util";
import { CommandError, readService } from "../../cli/command.ts";
import { COMMAND } from "../../config/command.ts";
import type { Environment } from "../../config/config.ts";
import { previewPage } from "./preview.ts";
import { Templates } from "./templates.ts";

const HELP = `\
Renders every e-mail of the service, with the templates of the application and sample values, to one page.

  ${COMMAND} mail preview > mail.html   every e-mail, in every language: subject, HTML part and text part
  ${COMMAND} mail --help                show this help

Exits with 2 if a template is not valid.
`;

/** The output for these arguments. Throws CommandError. */
export async function mail(args: string[], environment?: Environment): Promise<string> {
  const { isHelp, command } = readOptions(args);
  if (isHelp) return HELP;
  if (command !== "preview") throw new CommandError(2, `the command must be preview\n\n${HELP}`);
  const { application } = await readService(environment);
  return previewPage(new Templates(application.mailFolder));
}

function readOptions(args: string[]): { readonly isHelp: boolean; readonly command: string | undefined } {
  try {
    const { values, positionals } = parseArgs({
      args,
      options: { help: { type: "boolean", short: "h" } },
      allowPositionals: true,
    });
    if (positionals.length > 1) throw new Error("too many arguments");
    return { isHelp: values.help === true, command: positionals[0] };
  } catch (error) {
    throw new CommandError(2, `${(error as Error).message}\n\n${HELP}`);
  }
}
