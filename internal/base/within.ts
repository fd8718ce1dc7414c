/**
 * Gives what `work` gives or throws or, when that takes longer than `msMax`, what `late` gives or throws. `work` itself goes
 * on, and what it throws later is nobody's. For calls that are many and of one length `Deadlines` is cheaper.
 */
export function within<T, Late = T>(msMax: number, work: Promise<T>, late: () => Late): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }, msMax)
    work.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}
