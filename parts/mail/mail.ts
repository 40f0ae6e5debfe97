import { defineCommand, readService } from "../../cli/command.ts";
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

export const mail = defineCommand({
  name: "mail",
  help: HELP,
  maxArguments: 1,
  async run({ args: [command], refuse }, environment?: Environment) {
    if (command !== "preview") throw refuse("the command must be preview");
    const { application } = await readService(environment);
    return previewPage(new Templates(application.mailFolder));
  },
});
