/*
 * One row per filter: FILTER(name). A file here defines filter_<name>. No include guard: included
 * wherever the list is walked.
 */
FILTER(shuffle)
FILTER(bitshuffle)
FILTER(delta)
FILTER(truncprec)
FILTER(bytedelta)
FILTER(bytedelta_old)
FILTER(inttrunc)
