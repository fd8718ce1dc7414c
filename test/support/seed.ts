/**
 * Returns the seed of a test with random cases: a new one in each run, or `TEST_SEED`. Tests print it when they fail, to repeat
 * the same cases. @throws RangeError if `TEST_SEED` is no integer
 */
export function testSeed(): number {
  const given = process.env['TEST_SEED']
  if (given === undefined || given === '') return Math.floor(Math.random() * 2 ** 31)
  const seed = Number(given)
  if (!Number.isSafeInteger(seed)) throw new RangeError('TEST_SEED must be a whole number')
  return seed
}

/**
 * Returns the number of operations of a test that can run longer: `TEST_OPERATIONS`, or the given one. @throws RangeError if
 * `TEST_OPERATIONS` is no positive integer
 */
export function testOperations(usual: number): number {
  const given = process.env['TEST_OPERATIONS']
  if (given === undefined || given === '') return usual
  const operations = Number(given)
  if (!Number.isSafeInteger(operations) || operations < 1)
    throw new RangeError('TEST_OPERATIONS must be a positive whole number')
  return operations
}
