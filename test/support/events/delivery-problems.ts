/** Maximum problems that one failure lists. */
const problemsMax = 10
const problems: string[] = []

/** Records that a delivery does not fit the contract. The preloaded hooks then fail the test in which it was received. */
export function noteDeliveryProblem(problem: string): void {
  if (problems.length < problemsMax) problems.push(problem)
}

/** Throws an error with the recorded problems and forgets them. */
export function failOnDeliveryProblems(): void {
  if (problems.length === 0) return
  const found = problems.splice(0)
  throw new Error(
    `A callback received deliveries that do not fit the published contract:\n${found.join('\n')}\n` +
      'A test that delivers something else on purpose starts its receiver with `accepts: "anything"`.',
  )
}
