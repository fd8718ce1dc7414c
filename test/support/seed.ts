/**
 * The seed of a test that draws its cases: another one in each run, or the one that `TEST_SEED` names. Whoever uses it prints it
 * when the test fails, so that the same cases can be had again. @throws RangeError when `TEST_SEED` is no whole number
 */
export function testSeed(): number {
  const given = process.env['TEST_SEED']
  if (given === undefined || given === '') return Math.floor(Math.random() * 2 ** 31)
  const seed = Number(given)
  if (!Number.isSafeInteger(seed)) throw new RangeError('TEST_SEED must be a whole number')
  return seed
}
