/** The limits of telemetry. */

/** So many values of one label are told apart in metrics and span names. Further values are counted as 'other'. */
export const LABEL_VALUES_MAX = 100
/** So many label sets of one metric are told apart. Further ones are counted together. */
export const METRIC_SERIES_MAX = 500
/** Longer values of labels are cut. */
export const LABEL_LENGTH_MAX = 120
/** How long the gauges of the database may keep a scrape waiting. */
export const SCRAPE_MS_MAX = 5_000
