/** Seconds after which those who were turned away by a service that starts, stops, is busy or has no database may come again. */
export const RETRY_SECONDS = "5";
