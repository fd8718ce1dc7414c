// Currencies whose smallest unit is not a hundredth, by ISO 4217.
const decimals: Readonly<Record<string, number>> = {
  ...of(0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'),
  ...of(3, 'BHD IQD JOD KWD LYD OMR TND'),
  ...of(4, 'CLF UYW'),
}

/** An amount in a currency's smallest unit as decimal text: `42.00` for 4200 EUR. Currencies that nobody knows have hundredths. Pure. */
export function decimalText(amount: number, currency: string): string {
  const places = Object.hasOwn(decimals, currency) ? (decimals[currency] ?? 2) : 2
  if (places === 0) return String(amount)
  const digits = String(amount).padStart(places + 1, '0')
  return `${digits.slice(0, -places)}.${digits.slice(-places)}`
}

function of(places: number, currencies: string): Record<string, number> {
  return Object.fromEntries(currencies.split(' ').map((currency) => [currency, places]))
}
