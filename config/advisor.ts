import { z } from "zod";

/** Whether there are checks, or the path of the file with the findings that they accept. */
export const advisor = z
  .string()
  .refine(
    (text) => text === "on" || text === "off" || /[./]/.test(text),
    "must be on, off or a file such as ./accepted.txt",
  );

/** The file that ADVISOR names. */
export const acceptanceFile = (advisor: string): string | null =>
  advisor === "on" || advisor === "off" ? null : advisor;
