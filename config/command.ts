/** How messages, pages and documents write the command of this package. */
export const COMMAND = "npx content-service";
