let isShared = false;

/**
 * Grafast aborts a signal after each operation, without a reason: Node would make an error, with its stack, each time. The same
 * error serves all.
 */
export function shareAbortReason(): void {
  if (isShared) return;
  isShared = true;
  const { prototype } = AbortController;
  const { abort } = prototype;
  const aborted = new DOMException("This operation was aborted", "AbortError");
  prototype.abort = function (reason = aborted) {
    abort.call(this, reason);
  };
}
