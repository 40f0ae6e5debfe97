import type { Commands } from "../../config/command.ts";

export const commands: Commands = {
  advise: {
    about: "print the mistakes in the database, and the SQL that fixes them",
    load: async () => (await import("./advise.ts")).adviseCommand,
  },
  doctor: {
    about: "check the database and the connection to it, or identity providers",
    load: async () => (await import("./doctor/doctor.ts")).doctor,
  },
  why: {
    about: "say why a subscriber does not receive a change",
    load: async () => (await import("./why/why.ts")).why,
  },
};
