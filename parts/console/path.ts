/** Where the console is. */
export const CONSOLE = "/console";
