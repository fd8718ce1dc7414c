/** A store could not be started for a reason that the developer can mend; the text says how. Holds no secret. */
export class StoreStartError extends Error {
  override readonly name = 'StoreStartError'
}
