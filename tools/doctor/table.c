/* table.c - doctor.def as a table. */
#include "doctor.h"

#define GPU DOCTOR_GPU
#define SOFTWARE DOCTOR_SOFTWARE
#define MEASURED DOCTOR_MEASURED
#define ENVIRONMENT DOCTOR_ENVIRONMENT
#define MACHINE DOCTOR_MACHINE
#define NCCL DOCTOR_NCCL
#define LIBTURBO DOCTOR_LIBTURBO
#define NONE 0u
#define WARN (1u << DOCTOR_WARN)
#define FAIL (1u << DOCTOR_FAIL)

const struct doctor_row doctor_table[DOCTOR_FINDINGS] = {
#define FINDING(id, subject, title, levels, why, todo) {#id, title, why, todo, NULL, NULL, subject, levels},
#define VARIABLE(id, subject, name, values, why, todo) {#id, name, why, todo, name, values, subject, WARN},
#include "doctor.def"
};

const char *const doctor_subjects[DOCTOR_SUBJECTS] = {
	"GPU", "Software", "Measured", "Environment", "Machine", "NCCL", "libturbo",
};
const char *const doctor_subject_names[DOCTOR_SUBJECTS] = {
	"gpu", "software", "measured", "environment", "machine", "nccl", "libturbo",
};
const char *const doctor_levels[] = {"not here", "ok", "warn", "fail"};
