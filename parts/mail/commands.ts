import type { Commands } from "../../config/command.ts";

export const commands: Commands = {
  mail: {
    about: "render the e-mails of the service to a page",
    load: async () => (await import("./mail.ts")).mail,
  },
};
